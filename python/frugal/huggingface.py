"""Hugging Face's Trainer: Trainer(..., callbacks=[FrugalCallback(usd_hour=0.5)])."""
import os
import sys

from transformers import TrainerCallback

from .follow import INTERRUPTED, Follow, newest
from .shared import agree, device_facts, folder_bytes

__all__ = ["FrugalCallback", "newest"]


class FrugalCallback(TrainerCallback):
    """Takes the keywords of frugal.Follow. After a signal or a notice the script ends with 4 once the checkpoint is saved;
    exit=False leaves that to it (`callback.run.interrupted`)."""

    def __init__(self, exit=True, **keywords):
        self.exit, self.keywords, self.run, self.loss = exit, keywords, None, None

    def on_train_begin(self, args, state, control, model=None, **_):
        batch = args.per_device_train_batch_size * max(args.n_gpu, 1) * args.world_size
        precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32"
        keywords = dict(name=args.run_name if args.run_name != args.output_dir else os.path.basename(args.output_dir))
        self.run = Follow(args.output_dir, **{**keywords, "steps": state.max_steps, "batch": batch, "from_step": state.global_step,
                                              "accumulate": args.gradient_accumulation_steps, **self.keywords})
        self.run.open(precision=precision, optimiser=str(getattr(args.optim, "value", args.optim)), **device_facts(model))
        self.run.part("input")

    def on_step_begin(self, args, state, control, **_):
        self.run.part("compute")

    def on_log(self, args, state, control, logs=None, **_):
        self.loss = (logs or {}).get("loss", self.loss)

    def on_step_end(self, args, state, control, **_):
        run = self.run
        run.loss_at = 0.0
        run.step(self.loss, steps=state.global_step - run.done_steps)
        stop, save = agree(run, state.global_step)
        if stop or save:
            control.should_save = True
        if stop:
            control.should_training_stop = True
        run.part("evaluation" if control.should_evaluate else "checkpoint" if control.should_save else "input")

    def on_evaluate(self, args, state, control, metrics=None, **_):
        values = {k.replace("eval_", "", 1): v for k, v in (metrics or {}).items() if isinstance(v, (int, float))}
        quality = {k: v for k, v in values.items() if k not in ("loss", "epoch") and not k.endswith(("runtime", "per_second"))}
        self.run.evaluated(values.get("loss"), **quality)
        self.run.part("checkpoint" if control.should_save else "input")

    def on_save(self, args, state, control, **_):
        self.run.saved(state.global_step, folder_bytes(os.path.join(args.output_dir, f"checkpoint-{state.global_step}")))
        self.run.part("input")

    def on_train_end(self, args, state, control, **_):
        self.run.close()
        if self.exit and self.run.interrupted:
            sys.exit(INTERRUPTED)
