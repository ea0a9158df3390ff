# SPDX-License-Identifier: Apache-2.0
"""What idle_loops.py does, with PyTorch. idle_ops_double.py has the same names."""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VERSION = torch.__version__
ITEM_S = 0.005
BATCH = 4
HEAVY = 8192  # rows and columns; some milliseconds a product


class SlowItems(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(ITEM_S)  # decoding
        return torch.full((1024,), float(index))


class Operations:
    def __init__(self, name):
        torch.manual_seed(0)
        self.small = torch.ones(1 << 16, device="cuda")
        self.model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, foreach=True)
        self.loader = DataLoader(SlowItems(), batch_size=BATCH)
        self.weight = torch.randn(HEAVY, HEAVY, device="cuda", dtype=torch.half) if name == "sync" else self.small
        self.name = name

    def warm_up(self):
        if self.name == "sync":
            self.item(self.heavy_step())
        else:
            self.scale()
            self.train(torch.ones(BATCH, 1024).cuda())

    def scale(self):
        self.small.mul_(1.0001)

    def batches(self):
        return self.loader

    @staticmethod
    def to_gpu(batch):
        return batch.to("cuda", non_blocking=True)

    def train(self, inputs):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(inputs).mean().backward()
        self.optimizer.step()

    def heavy_step(self):
        return (self.weight @ self.weight).sum()

    @staticmethod
    def item(loss):
        return loss.item()

    @staticmethod
    def synchronize():
        torch.cuda.synchronize()
