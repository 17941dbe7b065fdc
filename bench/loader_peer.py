"""loader_peer.py FOLDER WORKERS: torch's DataLoader over torchvision's ImageFolder, which reads with Pillow. For
each line on stdin, a number of seconds, it prints pictures a second over as long, in batches of 64."""
import sys
import time

import PIL
import torch
import torchvision
from torchvision import datasets, transforms

BATCH, WARM_BATCHES = 64, 2


def batches(loader):
    while True:
        yield from loader


def main(folder, workers):
    torch.set_num_threads(1)
    steps = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    data = datasets.ImageFolder(folder, steps)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=True, drop_last=True)
    stream = batches(loader)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}", flush=True)
    for line in sys.stdin:
        for _ in range(WARM_BATCHES):
            next(stream)
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < float(line):
            count += len(next(stream)[1])
        print(count / (time.perf_counter() - begin), flush=True)


main(sys.argv[1], int(sys.argv[2]))
