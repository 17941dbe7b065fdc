"""Weights as numpy arrays or torch tensors, without a copy: safetensors is a header and the bytes of the tensors, which are
mapped into memory when read, and written from where they are."""
import json
import mmap
import os
import struct

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
         "I8": "int8", "U8": "uint8", "BOOL": "bool"}
CODES = {name: code for code, name in NAMES.items()}


def header(view):
    (size,) = struct.unpack_from("<Q", view, 0)
    if size > len(view) - 8:
        raise ValueError("the file is shorter than its header says")
    return json.loads(bytes(view[8 : 8 + size])), 8 + size


def checked(name, entry, begin, limit):
    first, last = entry["data_offsets"]
    if not 0 <= first <= last <= limit - begin:
        raise ValueError(f"{name}: its bytes are not in the file")
    return begin + first, last - first


def as_numpy(view, at, size, entry):
    import numpy

    name = NAMES[entry["dtype"]]
    if name == "bfloat16":  # numpy has none: the upper half of a float32, as it is
        name = "uint16"
    return numpy.frombuffer(view, numpy.dtype(name), size // numpy.dtype(name).itemsize, at).reshape(entry["shape"])


def as_torch(view, at, size, entry):
    import torch

    dtype = getattr(torch, NAMES[entry["dtype"]])
    if not size:
        return torch.empty(entry["shape"], dtype=dtype)
    count = size // torch.empty((), dtype=dtype).element_size()
    return torch.frombuffer(view, dtype=dtype, count=count, offset=at).reshape(entry["shape"])


def load(path, kind="numpy"):
    """{name: array} of a safetensors file; kind is "numpy" or "torch". The arrays are the file's pages, private to this
    process: they may be changed, the file stays as it is. bfloat16 comes as uint16 in numpy, which has no such type."""
    make = {"numpy": as_numpy, "torch": as_torch}[kind]
    with open(path, "rb") as file:
        view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    entries, begin = header(view)
    entries.pop("__metadata__", None)
    return {name: make(view, *checked(name, entry, begin, len(view)), entry) for name, entry in entries.items()}


def described(array):
    """Type, shape and bytes of a numpy array or a torch tensor on the CPU; what is not contiguous is copied."""
    if hasattr(array, "detach"):
        import torch

        array = array.detach().cpu().contiguous()
        name = str(array.dtype).split(".")[1]
        flat = array.reshape(-1).view(torch.uint8) if array.numel() else array.reshape(-1).to(torch.uint8)
        return CODES[name], list(array.shape), memoryview(flat.numpy())
    import numpy

    array = numpy.ascontiguousarray(array)
    return CODES[array.dtype.name], list(array.shape), memoryview(array.reshape(-1).view(numpy.uint8))


def save(path, tensors, metadata=None):
    """Writes {name: numpy array or torch tensor} as safetensors, which `train.init` and `frugal evaluate` read. The file appears
    whole or not at all."""
    entries, bodies, at = {}, [], 0
    if metadata:
        entries["__metadata__"] = {str(k): str(v) for k, v in metadata.items()}
    for name, array in tensors.items():
        code, shape, body = described(array)
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + body.nbytes]}
        bodies.append(body)
        at += body.nbytes
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for body in bodies:
            file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
