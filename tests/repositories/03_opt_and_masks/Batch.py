import torch
import numpy as np
from torch.autograd import Variable

def nopeak_mask(size, opt):
    upper = np.triu(np.ones((1, size, size)), k=1).astype('uint8')
    mask = Variable(torch.from_numpy(upper) == 0)
    if opt.device == 0:
        mask = mask.cuda()
    return mask

def create_masks(src, trg, opt):
    src_mask = (src != opt.src_pad).unsqueeze(-2)
    if trg is not None:
        trg_mask = (trg != opt.trg_pad).unsqueeze(-2)
        trg_mask = trg_mask & nopeak_mask(trg.size(1), opt)
    else:
        trg_mask = None
    return src_mask, trg_mask
