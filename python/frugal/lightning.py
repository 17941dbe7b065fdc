"""Lightning: Trainer(callbacks=[FrugalCallback("out", usd_hour=0.5)]), and fit(..., ckpt_path=newest("out"))."""
import os
import sys

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from .follow import INTERRUPTED, Follow
from .shared import agree, device_facts

__all__ = ["FrugalCallback", "newest"]

NAME = "frugal.ckpt"


def newest(folder):
    """The checkpoint that an order made in that folder, or None: for fit(ckpt_path=...)."""
    path = os.path.join(folder, NAME)
    return path if os.path.exists(path) else None


class FrugalCallback(Callback):
    """Takes the folder for the checkpoint that an order asks for, and the keywords of frugal.Follow. After a signal or a notice
    the script ends with 4; exit=False leaves that to it (`callback.run.interrupted`)."""

    def __init__(self, folder, exit=True, **keywords):
        self.folder, self.exit, self.keywords, self.run = folder, exit, keywords, None

    def on_train_start(self, trainer, module):
        steps = trainer.estimated_stepping_batches
        keywords = {"steps": int(steps) if steps not in (-1, float("inf")) else 0, "from_step": trainer.global_step,
                    "accumulate": trainer.accumulate_grad_batches, **self.keywords}
        self.run = Follow(self.folder, **keywords)
        self.run.open(precision=str(trainer.precision), **device_facts(module))
        self.run.part("input")

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.run.part("compute")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        run = self.run
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if trainer.global_step > run.done_steps:  # not within an accumulated step
            run.step(loss, steps=trainer.global_step - run.done_steps)
            stop, save = agree(run, trainer.global_step)
            if stop or save:
                self.save(trainer)
            if stop:
                trainer.should_stop = True
        run.part("input")

    def save(self, trainer):
        path = os.path.join(self.folder, NAME)
        self.run.part("checkpoint")
        os.makedirs(self.folder, exist_ok=True)
        trainer.save_checkpoint(path + ".part")
        if trainer.is_global_zero:
            os.replace(path + ".part", path)
            self.run.saved(bytes=os.path.getsize(path))

    def on_validation_start(self, trainer, module):
        if self.run and not trainer.sanity_checking:
            self.run.part("evaluation")

    def on_validation_end(self, trainer, module):
        if not self.run or trainer.sanity_checking:
            return
        values = {str(k): float(v) for k, v in trainer.callback_metrics.items()}
        loss = values.pop("val_loss", None)
        self.run.evaluated(loss, **{k.replace("val_", "", 1): v for k, v in values.items() if k.startswith("val_")})
        self.run.part("input")

    def on_train_end(self, trainer, module):
        self.run.close()

    def on_exception(self, trainer, module, exception):
        if self.run:
            self.run.__exit__(type(exception), exception, None)

    def teardown(self, trainer, module, stage):
        if stage == "fit" and self.run and self.exit and self.run.interrupted:
            sys.exit(INTERRUPTED)
