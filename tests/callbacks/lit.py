"""lit.py FOLDER STEPS: a small network in Lightning, with frugal's callback; resumes by itself."""
import sys
import warnings

import torch

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

from frugal.lightning import FrugalCallback, newest

warnings.filterwarnings("ignore")
folder, steps = sys.argv[1], int(sys.argv[2])
torch.manual_seed(1)
x = torch.randn(256, 8)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))

    def training_step(self, batch, i):
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, i):
        self.log("val_loss", self.training_step(batch, i))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)

    def on_train_batch_end(self, outputs, batch, i):
        print("step", self.trainer.global_step, flush=True)


trainer = pl.Trainer(max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                     enable_model_summary=False, val_check_interval=32, callbacks=[FrugalCallback(folder, batch=4, usd_hour=3.6, name="lit")])
trainer.fit(Net(), data, data, ckpt_path=newest(folder))
