"""What the callbacks have in common."""
import os

SYNC_STEPS = 10  # between two questions to the other processes of a run whether any was asked to end


def device_facts(model):
    """What a model and its device are, for the ledger."""
    import torch

    parameters = list(model.parameters()) if model is not None else []
    cuda = bool(parameters) and parameters[0].is_cuda
    return {"parameters": sum(p.numel() for p in parameters), "parameters_trained": sum(p.numel() for p in parameters if p.requires_grad),
            "device": torch.cuda.get_device_name() if cuda else "cpu", "gpus": world_size() if cuda else 0}


def world_size():
    import torch

    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if there else 1


def agree(run, step):
    """(stop, save): what this process was asked for, or with several of them any of them was; then all stop at the same step."""
    stop, save = run.stopping, run.order_save.is_set()
    if world_size() == 1:
        return stop, save
    if step % SYNC_STEPS:
        return False, False
    import torch

    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    asked = torch.tensor([int(stop) + int(run.interrupted), int(save)], device=device)
    torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
    stop, save = asked.tolist()
    if stop and not run.reason:  # another process was asked
        run.reason, run.why = "signal" if stop == 2 else "budget", "another process of the run was asked to end"
    if stop:
        run.order_stop.set()
    return bool(stop), bool(save)


def folder_bytes(folder):
    total = 0
    for top, _, names in os.walk(folder):
        total += sum(os.path.getsize(os.path.join(top, name)) for name in names)
    return total
