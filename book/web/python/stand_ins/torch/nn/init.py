"""Numbers to start from."""

import math

import torch


def uniform_(x, a=0.0, b=1.0):
    return x.copy_(torch.rand(x.shape, dtype=x.dtype) * (b - a) + a)


def normal_(x, mean=0.0, std=1.0):
    return x.copy_(torch.randn(x.shape, dtype=x.dtype) * std + mean)


def zeros_(x):
    return x.copy_(0)


def ones_(x):
    return x.copy_(1)


def xavier_uniform_(x, gain=1.0):
    limit = gain * math.sqrt(6 / (x.shape[0] + x.shape[1]))
    return uniform_(x, -limit, limit)
