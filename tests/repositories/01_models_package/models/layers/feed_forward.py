from torch import nn


class FeedForward(nn.Module):

    def __init__(self, d_model, hidden, drop_prob=0.1):
        super(FeedForward, self).__init__()
        self.fc1 = nn.Linear(d_model, hidden)
        self.fc2 = nn.Linear(hidden, d_model)
        self.act = nn.ReLU()
        self.drop = nn.Dropout(p=drop_prob)

    def forward(self, x):
        return self.fc2(self.drop(self.act(self.fc1(x))))
