"""What controllers of Kubernetes and the operators of training jobs call the pods that they make.

Sources: apimachinery, pkg/util/rand (the alphabet of what is made up); training-operator,
pkg/controller.v1/common/pod.go (`<job>-<role>-<n>`); JobSet, `<set>-<role>-<n>-<index>-<five characters>`, whose roles
the user names.
"""

from __future__ import annotations

MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]"  # one character of it: no vowels, and none of 0, 1 and 3
ROLES = "master|worker|launcher|chief|ps|evaluator|head|leader|trainer|replica"
# Kubeflow's trainer has initializers beside `node`.
OF_JOBSET = (
    r"(?P<set>[a-z0-9][a-z0-9-]*?)-(?:(?:dataset|model)-initializer|[a-z][a-z0-9]*)-\d{1,6}-\d{1,6}"
    rf"-{MADE_UP}{{5}}"
)
