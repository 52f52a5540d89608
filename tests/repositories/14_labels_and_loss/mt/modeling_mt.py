""" PyTorch MT model."""
import math
from typing import Optional

import torch
from torch import nn
from torch.nn import CrossEntropyLoss

from .configuration_mt import MTConfig


def expand_mask(mask: torch.Tensor, dtype: torch.dtype, tgt_len: Optional[int] = None):
    """[bsz, src_len] of ones and zeros -> additive mask [bsz, 1, tgt_len, src_len]."""
    bsz, src_len = mask.size()
    tgt_len = tgt_len if tgt_len is not None else src_len
    inverted = 1.0 - mask[:, None, None, :].expand(bsz, 1, tgt_len, src_len).to(dtype)
    return inverted.masked_fill(inverted.bool(), torch.finfo(dtype).min)


def make_causal_mask(input_ids: torch.Tensor, dtype: torch.dtype):
    bsz, tgt_len = input_ids.size()
    mask = torch.full((tgt_len, tgt_len), torch.finfo(dtype).min, device=input_ids.device).triu(1)
    return mask[None, None].expand(bsz, 1, tgt_len, tgt_len)


class MTAttention(nn.Module):
    def __init__(self, config: MTConfig):
        super().__init__()
        self.num_heads = config.attention_heads
        self.head_dim = config.d_model // config.attention_heads
        self.dropout = config.dropout
        self.q_proj = nn.Linear(config.d_model, config.d_model)
        self.k_proj = nn.Linear(config.d_model, config.d_model)
        self.v_proj = nn.Linear(config.d_model, config.d_model)
        self.out_proj = nn.Linear(config.d_model, config.d_model)

    def _shape(self, tensor: torch.Tensor):
        return tensor.view(tensor.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, hidden_states, key_value_states=None, attention_mask=None):
        source = hidden_states if key_value_states is None else key_value_states
        query = self._shape(self.q_proj(hidden_states) / math.sqrt(self.head_dim))
        key, value = self._shape(self.k_proj(source)), self._shape(self.v_proj(source))
        weights = query @ key.transpose(-1, -2)
        if attention_mask is not None:
            # both masks may be the smallest number: clamp the sum, it would be -inf
            weights = weights + attention_mask.clamp(min=torch.finfo(weights.dtype).min / 2)
        weights = nn.functional.dropout(weights.softmax(-1), p=self.dropout, training=self.training)
        return self.out_proj((weights @ value).transpose(1, 2).flatten(2))


class MTLayer(nn.Module):
    def __init__(self, config: MTConfig, is_decoder: bool = False):
        super().__init__()
        self.is_decoder = is_decoder
        self.self_attn = MTAttention(config)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        if is_decoder:
            self.encoder_attn = MTAttention(config)
            self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, config.ffn_dim)
        self.fc2 = nn.Linear(config.ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states, attention_mask, encoder_hidden_states=None, encoder_attention_mask=None):
        out = self.self_attn(hidden_states, attention_mask=attention_mask)
        hidden_states = self.self_attn_layer_norm(hidden_states + self.dropout(out))
        if self.is_decoder:
            out = self.encoder_attn(hidden_states, encoder_hidden_states, encoder_attention_mask)
            hidden_states = self.encoder_attn_layer_norm(hidden_states + self.dropout(out))
        out = self.fc2(nn.functional.gelu(self.fc1(hidden_states)))
        return self.final_layer_norm(hidden_states + self.dropout(out))


class MTModel(nn.Module):
    def __init__(self, config: MTConfig):
        super().__init__()
        self.config = config
        self.shared = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder_positions = nn.Embedding(config.max_position_embeddings, config.d_model)
        self.decoder_positions = nn.Embedding(config.max_position_embeddings, config.d_model)
        self.encoder_layers = nn.ModuleList([MTLayer(config) for _ in range(config.encoder_layers)])
        self.decoder_layers = nn.ModuleList([MTLayer(config, is_decoder=True) for _ in range(config.decoder_layers)])
        self.dropout = nn.Dropout(config.dropout)

    def embed(self, input_ids, positions):
        position_ids = torch.arange(input_ids.size(1), device=input_ids.device)
        return self.dropout(self.shared(input_ids) + positions(position_ids))

    def forward(self, input_ids, attention_mask, decoder_input_ids, decoder_attention_mask):
        hidden_states = self.embed(input_ids, self.encoder_positions)
        encoder_mask = expand_mask(attention_mask, hidden_states.dtype)
        for layer in self.encoder_layers:
            hidden_states = layer(hidden_states, encoder_mask)
        encoder_hidden_states = hidden_states

        hidden_states = self.embed(decoder_input_ids, self.decoder_positions)
        dtype, tgt_len = hidden_states.dtype, decoder_input_ids.size(1)
        decoder_mask = torch.minimum(make_causal_mask(decoder_input_ids, dtype), expand_mask(decoder_attention_mask, dtype))
        cross_mask = expand_mask(attention_mask, dtype, tgt_len=tgt_len)
        for layer in self.decoder_layers:
            hidden_states = layer(hidden_states, decoder_mask, encoder_hidden_states, cross_mask)
        return hidden_states, encoder_hidden_states


class MTForConditionalGeneration(nn.Module):
    def __init__(self, config: MTConfig):
        super().__init__()
        self.config = config
        self.model = MTModel(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.apply(self._init_weights)
        self.lm_head.weight = self.model.shared.weight

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=self.config.init_std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def forward(
        self,
        input_ids: torch.LongTensor,
        attention_mask: Optional[torch.Tensor] = None,
        decoder_input_ids: Optional[torch.LongTensor] = None,
        decoder_attention_mask: Optional[torch.Tensor] = None,
        labels: Optional[torch.LongTensor] = None,
    ):
        r"""
        labels (`torch.LongTensor` of shape `(batch_size, sequence_length)`, *optional*):
            The target sentence, `<s> ... </s>`, padded with `config.pad_token_id`. Used as input of the decoder, too,
            where `decoder_input_ids` is not given.
        """
        pad = self.config.pad_token_id
        if attention_mask is None:
            attention_mask = input_ids.ne(pad).long()
        if decoder_input_ids is None:
            decoder_input_ids = labels
        if decoder_attention_mask is None:
            decoder_attention_mask = decoder_input_ids.ne(pad).long()

        hidden_states, encoder_last = self.model(input_ids, attention_mask, decoder_input_ids, decoder_attention_mask)
        logits = self.lm_head(hidden_states)

        loss = None
        if labels is not None:
            loss_fct = CrossEntropyLoss(ignore_index=pad)
            loss = loss_fct(logits.view(-1, self.config.vocab_size), labels.view(-1))
        return {"loss": loss, "logits": logits, "encoder_last_hidden_state": encoder_last}
