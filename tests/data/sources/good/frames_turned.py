import cv2
import timm

net = timm.create_model("resnet50", pretrained=True)


def frames(path):
    cap = cv2.VideoCapture(path)
    while True:
        ok, frame = cap.read()
        if not ok:
            break
        yield frame[..., ::-1].copy()
