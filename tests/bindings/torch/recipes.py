"""Runs the first lines of sections of README.md and docs/PYTORCH.md, in tiny trainings.

    python recipes.py FOLDER SECTION...

Packages are imported once; every rank is a fork of this process, in an environment like torchrun's.
What a rank prints goes to FOLDER/SECTION.RANK; its last line is a digest of the parameters.
"""

import importlib
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bindings" / "python"))

import gqsgd.torch
import torch
import torch._dynamo  # what DDP imports later would cost every rank seconds
import torch.distributed as dist
import torch_models as models
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEP_COUNT = 8
INPUTS = torch.randn(STEP_COUNT * 16, 32, generator=torch.Generator().manual_seed(0))


class Net(torch.nn.Module):
    """A regression that any of the packages trains."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 32))

    def forward(self, x, labels=None):
        y = self.layers(x)
        return y if labels is None else {"loss": torch.nn.functional.mse_loss(y, labels)}


def lines_of(section):
    """The first Python lines of a section of its page."""
    page = (ROOT / PAGES.get(section, "docs/PYTORCH.md")).read_text()
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## )", page, flags=re.MULTILINE | re.DOTALL)
    return re.search(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)[1]


def batches():
    return DataLoader(TensorDataset(INPUTS), batch_size=16)


def train(names, model, optimizer=None, loader=None, backward=torch.Tensor.backward):
    """What the program around the lines does."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader or batches():
        optimizer.zero_grad()
        backward(model(x, x)["loss"])
        optimizer.step()
    print(names["state"].summary())


def with_ddp(run):
    dist.init_process_group("gloo")
    names = run(net=Net(), DistributedDataParallel=DistributedDataParallel)
    train(names, names["model"])
    return names["net"]


def with_two_lines(run):
    dist.init_process_group("gloo")
    net = Net()
    names = run(net=net, model=DistributedDataParallel(net))
    train(names, names["model"])
    return net


def with_shards(run, **sizes):
    dist.init_process_group("gloo")
    names = run(net=Net(), fully_shard=fully_shard, init_device_mesh=init_device_mesh, device="cpu",
                gqsgd=gqsgd, **sizes)
    train(names, names["net"])
    return names["net"]


def with_lightning(run):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, _):
            return self.net(*batch, *batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    names = run(module=Module(), loader=batches())
    dist.barrier()
    saved = torch.load(next(Path().rglob("*.ckpt")), weights_only=True)
    step = saved["callbacks"]["Compression"]["step"]
    assert step == names["compression"].state.step == saved["global_step"]
    return names["module"]


def with_accelerate(run):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = run(model=model, optimizer=optimizer, loader=batches())
    accelerator = names["accelerator"]
    train(names, names["model"], names["optimizer"], names["loader"], accelerator.backward)
    names["state"].step += 5
    accelerator.save_state("saved")
    accelerator.wait_for_everyone()
    names["state"].step = 0
    accelerator.load_state("saved")
    assert names["state"].step == STEP_COUNT // 2 + 5
    return model


def with_trainer(run):
    import transformers

    args = transformers.TrainingArguments(
        "out", use_cpu=True, report_to="none", save_strategy="no")
    dataset = [{"x": x, "labels": x} for x in INPUTS]
    return run(model=Net(), args=args, dataset=dataset)["model"]


# Of each section: how many ranks, and what is around its lines.
SECTIONS = {
    "Two lines for PyTorch": (2, with_two_lines),
    "DDP": (2, with_ddp),
    "FSDP2": (2, with_shards),
    "HSDP": (4, lambda run: with_shards(run, machines=2, ranks_per_machine=2)),
    "Lightning": (2, with_lightning),
    "Accelerate": (2, with_accelerate),
    "Hugging Face Trainer": (2, with_trainer),
}
PAGES = {"Two lines for PyTorch": "README.md"}
IMPORTS = {"Lightning": "lightning", "Accelerate": "accelerate",
           "Hugging Face Trainer": "transformers.trainer"}


def be_rank(folder, section, rank, port):
    """A rank of a section's program; does not return."""
    size, around = SECTIONS[section]
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size),
        GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
        TORCHELASTIC_RUN_ID="recipe", TORCHELASTIC_USE_AGENT_STORE="True",
        TORCHELASTIC_RESTART_COUNT="0", GLOO_SOCKET_IFNAME="lo")
    output = os.open(f"{folder}/{section}.{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.chdir(folder)
    torch.set_num_threads(1)

    def run(**names):
        exec(compile(lines_of(section), f"the lines of {section}", "exec"), names)
        return names

    model = around(run)
    whole = [getattr(each, "full_tensor", lambda each=each: each)() for each in model.parameters()]
    print(models.digest(whole), flush=True)
    dist.destroy_process_group()
    os._exit(0)  # the interpreter would take a second to free so many packages


def fork_store():
    """The port of a store by which ranks find each other, in a process of its own, as torchrun's
    agent has it; and a file: once no process has it open, the process ends."""
    source, sink = os.pipe()
    watched, kept = os.pipe()
    if os.fork() == 0:
        os.close(kept)
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(sink, str(store.port).encode())
        os.read(watched, 1)
        os._exit(0)
    os.close(watched)
    return os.read(source, 10).decode(), kept


def main():
    folder, *sections = sys.argv[1:]
    for section in sections:
        if section in IMPORTS:
            importlib.import_module(IMPORTS[section])
    failed = False
    for section in sections:
        port, store = fork_store()
        pids = []
        for rank in range(SECTIONS[section][0]):
            pids.append(os.fork())
            if pids[-1] == 0:
                be_rank(folder, section, rank, port)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        os.close(store)
        os.wait()
        if any(codes):
            print(f"{section}: exit codes {codes}", file=sys.stderr)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
