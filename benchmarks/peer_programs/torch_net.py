"""The workloads' models in PyTorch, with the common initial weights."""

import numpy as np
import torch
import workloads
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    """Convolutions (with ReLU and pooling), then dense layers with ReLU between.

    `dropout_cnn` drops half of the channels behind its second convolution, and half of
    the numbers behind its first dense layer.
    """

    def __init__(self, model: str):
        super().__init__()
        self.image = len(workloads.SHAPES[model][0]) == 4
        self.rate = 0.5 if model == "dropout_cnn" else 0.0
        layers = []
        for kernel, bias in workloads.weights(model):
            if kernel.ndim == 4:
                layer = nn.Conv2d(kernel.shape[2], kernel.shape[3], kernel.shape[0])
                values = kernel.transpose(3, 2, 0, 1)
            else:
                layer = nn.Linear(*kernel.shape)
                values = kernel.T
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(values)))
                layer.bias.copy_(torch.from_numpy(bias))
            layers.append(layer)
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        if self.image:
            x = x.view(-1, 1, 28, 28)
        for number, layer in enumerate(self.layers[:-1]):
            if isinstance(layer, nn.Linear):
                x = functional.relu(layer(x.flatten(1)))
                if self.rate:
                    x = functional.dropout(x, self.rate, self.training)
                continue
            x = layer(x)
            if self.rate and number == 1:
                x = functional.dropout2d(x, self.rate, self.training)
            x = functional.relu(functional.max_pool2d(x, 2))  # in either order
        return self.layers[-1](x.flatten(1))


def loss(net: Net, work: workloads.Workload) -> float:
    """The check that the work was done."""
    x, y, _ = workloads.population(work)
    net.eval()
    with torch.no_grad():
        return workloads.loss(net(torch.from_numpy(x[:1000])).numpy(), y[:1000])
