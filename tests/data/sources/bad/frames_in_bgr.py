import cv2, timm, lightning as L


class M(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = timm.create_model("resnet50", pretrained=True)


def frames(path):
    cap = cv2.VideoCapture(path)
    while True:
        ok, frame = cap.read()  # HIT images_in_bgr
        if not ok:
            break
        yield frame
