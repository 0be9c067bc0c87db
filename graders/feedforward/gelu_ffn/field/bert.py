"""BERT in Hugging Face: an intermediate and an output step, the output's dense layer followed by dropout."""

from torch import nn


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.intermediate_act_fn = nn.functional.gelu
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)

    def intermediate(self, hidden_states):
        hidden_states = self.fc1(hidden_states)
        return self.intermediate_act_fn(hidden_states)

    def output(self, hidden_states):
        hidden_states = self.fc2(hidden_states)
        return self.dropout(hidden_states)

    def forward(self, hidden_states):
        return self.output(self.intermediate(hidden_states))
