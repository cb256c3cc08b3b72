"""Kernel logs: dmesg, journalctl, syslog and kmsg in all the forms they are printed in, and what their lines say."""
