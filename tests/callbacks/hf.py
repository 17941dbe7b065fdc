"""hf.py FOLDER STEPS: a small GPT-2 in Hugging Face's Trainer, with frugal's callback; resumes by itself."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from frugal.huggingface import FrugalCallback, newest

folder, steps = sys.argv[1], int(sys.argv[2])
torch.manual_seed(1)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (64, 16))]
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))


class Loud(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        print("step", state.global_step, flush=True)


args = TrainingArguments(folder, max_steps=steps, per_device_train_batch_size=4, logging_steps=5, save_strategy="no", eval_strategy="steps",
                         eval_steps=20, report_to=[], use_cpu=True, disable_tqdm=True, run_name="hf")
trainer = Trainer(model, args, train_dataset=rows, eval_dataset=rows[:8], callbacks=[FrugalCallback(usd_hour=3.6), Loud()])
trainer.train(resume_from_checkpoint=newest(folder))
print("loss", trainer.evaluate()["eval_loss"])
