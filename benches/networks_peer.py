"""Image networks of Pairloom beside torchvision, timm and open_clip: parity and speed.

    python benches/networks_peer.py parity FLICKR8K [photographs] [network ...]     # or `mixed`, with factors of bf16
    python benches/networks_peer.py torchscript FLICKR8K [photographs] [network ...]
    python benches/networks_peer.py f64 FLICKR8K [network ...]
    python benches/networks_peer.py speed FLICKR8K [photographs] [network ...]              # or `speed_mixed`
    python benches/networks_peer.py decoding FLICKR8K
    python benches/networks_peer.py scan PRECOMP

FLICKR8K is a folder with `dataset_flickr8k.json` and `images/`. `PAIRLOOM` names the program, by default
`target/release/pairloom`; `decoding` runs `cargo bench --bench networks`, with the features of cargo that `FEATURES` names.

`scan` imports a `*_precomp` folder and compares the size of its features with their npy files, and the time in which all
of them are read: the bytes, by pyarrow, and by one statement of `pairloom sql`, a process with its start.

`parity` writes the weights of a randomly initialised network to a safetensors file, with batch normalisation adjusted to
some photographs, and compares the features of 100 photographs, or of another number: read, decoded, resized, cropped and
normalised by each side. It prints the largest difference, relative to the largest value of the feature. With CLIP, also of the vectors of
their 500 captions.

`torchscript` traces the networks of torchvision, and compares the features that Pairloom computes with the traced module
with those of PyTorch, and with those of its own network of the same weights.

`f64` compares the features of 20 photographs, ours and PyTorch's in f32, with those that PyTorch computes in f64 from
the same weights and pixels. `folded` is PyTorch in f32 after its own folding of batch normalisation.

`speed` times both sides on two threads. Pairloom: a whole run of `extract` on listed images, from the start of the
program to its end, weights read. Python: PIL, torchvision's transforms, a DataLoader and the network, from the first to
the last batch, with the weights in memory and after a warm-up; the fastest of several numbers of workers and sizes of
batches. The rate is that of the clock; beside it stands the processor time of an image, which other programs on the
machine disturb less. With `speed_mixed`, ours have `precision = "mixed"`, and PyTorch's autocast to bf16.
"""

import copy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import open_clip
import pyarrow.parquet as pq
import timm
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms
from torchvision.models import resnet

THREADS = 2
FEATURES = ["--features", os.environ["FEATURES"]] if "FEATURES" in os.environ else []
IMAGENET = transforms.Compose([
    transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])  # fmt: skip
NETWORKS = [
    "squeezenet1_0", "squeezenet1_1", "mobilenet_v2", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101",
    "resnet152", "resnext50_32x4d", "resnext101_32x8d", "resnext101_32x16d", "inception_resnet_v2", "ViT-B-32",
    "ViT-B-32-quickgelu", "ViT-B-16", "ViT-L-14",
]  # fmt: skip


def create(name):
    """Network, transform and feature function."""
    torch.manual_seed(1)
    if name.startswith("ViT"):
        network, _, transform = open_clip.create_model_and_transforms(name)
        return network, transform, lambda net, x: net.encode_image(x)
    if name == "inception_resnet_v2":
        network = timm.create_model(name, pretrained=False)
        transform = create_transform(**resolve_data_config({}, model=network))
        return network, transform, lambda net, x: net.forward_features(x).mean((2, 3))
    if name.startswith("resnext101_32x") and not hasattr(models, name):
        width = int(name.removeprefix("resnext101_32x").removesuffix("d"))
        network = resnet.ResNet(resnet.Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=width)
    else:
        network = getattr(models, name)(weights=None)
    if name.startswith("vgg"):
        return network, IMAGENET, lambda net, x: net.classifier[:-1](torch.flatten(net.avgpool(net.features(x)), 1))
    if isinstance(network, resnet.ResNet):
        def feature(net, x):
            x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
            return net.layer4(net.layer3(net.layer2(net.layer1(x)))).mean((2, 3))
        return network, IMAGENET, feature
    return network, IMAGENET, lambda net, x: net.features(x).mean((2, 3))


class Photographs(Dataset):
    def __init__(self, folder, names, transform):
        self.folder, self.names, self.transform = folder, names, transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        with Image.open(self.folder / self.names[index]) as image:
            return self.transform(image.convert("RGB"))


def adjust(network, batch):
    """Statistics of batch normalisation become those of a batch, so that random features have usual sizes."""
    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    if norms:
        network.train()
        for norm in norms:
            norm.momentum = 1.0
        with torch.no_grad():
            network(batch)
    return network.eval()


def processor_seconds(who=resource.RUSAGE_SELF):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def subset(flickr, count, folder):
    """Karpathy's file of `count` photographs, evenly chosen, and their names."""
    content = json.loads((flickr / "dataset_flickr8k.json").read_text())
    images = content["images"]
    content["images"] = [images[i * len(images) // count] for i in range(count)]
    path = folder / "subset.json"
    path.write_text(json.dumps(content))
    return path, [image["filename"] for image in content["images"]]


PAIRLOOM = Path(os.environ.get("PAIRLOOM", "target/release/pairloom")).resolve()
MERGES = Path(open_clip.__file__).parent / "bpe_simple_vocab_16e6.txt.gz"


def run(*arguments):
    subprocess.run([PAIRLOOM, *arguments], check=True, stdout=subprocess.DEVNULL)


def extract(name, weights, listed, flickr, folder, more="", module=None):
    """Runs Pairloom: the seconds of the extraction, those of the processors, and its store."""
    images = f'[stage.pairs.ingest]\nkarpathy = {{ json = "{listed}", images = "{flickr / "images"}" }}\n'
    (folder / "listed.toml").write_text(images)
    network = f'network = "{name}"\nweights = {{ file = "{weights}" }}'
    if module:
        network = f'torchscript = {{ file = "{module}" }}'
    (folder / "pipeline.toml").write_text(f'{images}[stage.cnn.extract]\nimages = "pairs.images"\n{network}\n{more}\n')
    store = tempfile.mkdtemp(dir=folder)
    common = ["--quiet", "--store", store, "--threads", str(THREADS)]
    # The list of images is there before the clock starts, as it is for the DataLoader.
    run("run", *common, folder / "listed.toml")
    clock, used = time.perf_counter(), processor_seconds(resource.RUSAGE_CHILDREN)
    run("run", *common, folder / "pipeline.toml")
    seconds = time.perf_counter() - clock, processor_seconds(resource.RUSAGE_CHILDREN) - used
    return seconds, store


def exported(store, table, folder):
    output = folder / table
    run("export", "--store", store, f"cnn.{table}", "--output", output)
    arrays = [array for array in map(np.load, sorted(output.rglob("*.npy"))) if array.ndim == 2]
    return arrays[0]


def compare(title, ours, theirs):
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    relative = np.abs(ours - theirs).max(1) / np.abs(theirs).max(1)
    print(f"| {title} | {theirs.shape[1]:,} | {relative.max():.1e} |", flush=True)


def prepare(name, flickr, count, folder):
    """Network with random weights adjusted to twelve of `count` photographs, its feature function, the photographs, their
    list, and the file of the weights."""
    listed, files = subset(flickr, count, folder)
    network, transform, feature = create(name)
    photographs = Photographs(flickr / "images", files, transform)
    adjust(network, torch.stack([photographs[i] for i in range(0, count, max(1, count // 12))[:12]]))
    weights = folder / "weights.safetensors"
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, weights)
    return network, feature, photographs, listed, weights


def parity(flickr, names, count=100, more=""):
    print("| network | features | largest relative difference |\n|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            network, feature, photographs, listed, weights = prepare(name, flickr, count, folder)
            clip = name.startswith("ViT")
            captions = f'captions = {{ table = "pairs.captions", merges = "{MERGES}" }}' if clip else ""
            _, store = extract(name, weights, listed, flickr, folder, captions + more)
            with torch.inference_mode():
                theirs = torch.cat([feature(network, batch) for batch in DataLoader(photographs, 20)])
                if clip:
                    images = json.loads(listed.read_text())["images"]
                    texts = [sentence["raw"] for image in images for sentence in image["sentences"]]
                    tokens = open_clip.get_tokenizer(name)(texts)
                    texts = torch.cat([network.encode_text(some, normalize=True) for some in tokens.split(100)])
                    compare(f"{name}, captions", exported(store, "caption_embeddings", folder), texts.numpy())
                    theirs = torch.nn.functional.normalize(theirs, dim=1)
            compare(name, exported(store, "image_embeddings" if clip else "features", folder), theirs.numpy())


class Features(torch.nn.Module):
    def __init__(self, network, feature):
        super().__init__()
        self.network, self.feature = network, feature

    def forward(self, x):
        return self.feature(self.network, x)


def torchscript(flickr, names, count=100):
    print("| network | features | largest relative difference |\n|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            network, feature, photographs, listed, weights = prepare(name, flickr, count, folder)
            with torch.no_grad():
                traced = torch.jit.trace(Features(network, feature).eval(), torch.zeros(2, 3, 224, 224))
                theirs = torch.cat([feature(network, batch) for batch in DataLoader(photographs, 20)]).numpy()
            traced.save(folder / "module.pt")
            (seconds, _), store = extract(name, weights, listed, flickr, folder, module=folder / "module.pt")
            module = exported(store, "features", folder)
            compare(f"{name}, module and PyTorch", module, theirs)
            (folder / "features").rename(folder / "of_module")
            (own_seconds, _), store = extract(name, weights, listed, flickr, folder)
            compare(f"{name}, module and own network", module, exported(store, "features", folder))
            print(f"{count / seconds:.1f} and {count / own_seconds:.1f} images/s", file=sys.stderr)


def f64(flickr, names):
    print("| network | Pairloom | PyTorch | PyTorch, folded | the two |\n|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            network, feature, photographs, listed, weights = prepare(name, flickr, 20, folder)
            _, store = extract(name, weights, listed, flickr, folder)
            ours = exported(store, "features", folder)
            with torch.inference_mode():
                pixels = torch.stack([photographs[i] for i in range(len(photographs))])
                single = feature(network, pixels).numpy()
                folded = feature(fold(copy.deepcopy(network)), pixels).numpy()
                exact = feature(network.double(), pixels.double()).numpy()
            relative = [np.abs(a - b).max(1) / np.abs(exact).max(1)
                        for a, b in ((ours, exact), (single, exact), (folded, exact), (ours, single))]  # fmt: skip
            print(f"| {name} | " + " | ".join(f"{most.max():.1e}, mean {most.mean():.1e}" for most in relative) + " |", flush=True)


def fold(network):
    """Folds the batch normalisations of a ResNet into its convolutions."""
    for module in [network, *network.modules()]:
        norms = {"bn1": "conv1", "bn2": "conv2", "bn3": "conv3"}
        for norm, conv in norms.items():
            if isinstance(getattr(module, norm, None), torch.nn.BatchNorm2d):
                fused = fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm))
                setattr(module, conv, fused)
                setattr(module, norm, torch.nn.Identity())
        if isinstance(module, torch.nn.Sequential) and len(module) == 2 and isinstance(module[1], torch.nn.BatchNorm2d):
            module[0], module[1] = fuse_conv_bn_eval(module[0], module[1]), torch.nn.Identity()
    return network


def python_pass(network, feature, loader, mixed):
    """Seconds of a pass, and those of the processors, with those of its workers. With `mixed`, autocast to bf16."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    clock, used = time.perf_counter(), sum(map(processor_seconds, who))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        for pixels in loader:
            feature(network, pixels)
    return time.perf_counter() - clock, sum(map(processor_seconds, who)) - used


def speed(flickr, names, count=991, mixed=False):
    torch.set_num_threads(THREADS)
    print(f"{THREADS} threads\n")
    print("| network, photographs | Pairloom, images/s | processor ms | Python, images/s | processor ms | ratio | of processor time |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            listed, files = subset(flickr, count, folder)
            network, transform, feature = create(name)
            network.eval()
            weights = folder / "weights.safetensors"
            save_file({key: value.contiguous() for key, value in network.state_dict().items()}, weights)
            photographs = Photographs(flickr / "images", files, transform)
            warm_up = Photographs(flickr / "images", files[:16], transform)
            trial = Photographs(flickr / "images", files[: max(64, count // 8)], transform)
            # The fastest way is chosen on some of the photographs, so that all of them need few passes.
            ways = []
            for workers in (0, 1, 2):
                for batch in (8, 32):
                    python_pass(network, feature, DataLoader(warm_up, batch), mixed)
                    loader = DataLoader(trial, batch, num_workers=workers)
                    ways.append((*python_pass(network, feature, loader, mixed), workers, batch))
            fastest, frugal = min(ways), min(ways, key=lambda way: way[1])
            theirs = []
            for _, _, workers, batch in {fastest, frugal}:
                loader = DataLoader(photographs, batch, num_workers=workers)
                seconds, used = python_pass(network, feature, loader, mixed)
                theirs.append((seconds, used, f"{workers} workers, batch {batch}"))
            more = 'precision = "mixed"' if mixed else ""
            ours = [extract(name, weights, listed, flickr, folder, more)[0] for _ in range(2)]
            seconds, used, chosen = min(theirs)
            least = min(used for _, used, _ in theirs)
            own, own_used = min(ours)
            print(f"| {name}, {count} | {count / own:.1f} | {1e3 * own_used / count:.1f} | {count / seconds:.1f} ({chosen}) "
                  f"| {1e3 * least / count:.1f} | {seconds / own:.2f} | {least / own_used:.2f} |", flush=True)  # fmt: skip


def decoding(flickr):
    _, names = subset(flickr, 991, Path(tempfile.mkdtemp()))
    photographs = Photographs(flickr / "images", names, transforms.Compose(IMAGENET.transforms))
    decoded = Photographs(flickr / "images", names, lambda image: 0)
    for title, data in (("decode", decoded), ("decode, resize, crop, normalise", photographs)):
        for _ in range(2):
            clock = time.perf_counter()
            for index in range(len(data)):
                data[index]
            seconds = time.perf_counter() - clock
        print(f"PIL, one thread, {title}: {len(data) / seconds:.0f} images/s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        pixels = Path(folder) / "pixels"
        subprocess.run(["cargo", "bench", "--quiet", *FEATURES, "--bench", "networks", "--", str(flickr), pixels], check=True)
        ours, start, equal = np.memmap(pixels, np.uint8), 0, 0
        paths = sorted((flickr / "images").iterdir())
        for path in paths:
            theirs = np.asarray(Image.open(path).convert("RGB")).ravel()
            equal += np.array_equal(ours[start : start + theirs.size], theirs)
            start += theirs.size
        print(f"{equal} of {len(paths)} photographs have PIL's pixels", flush=True)


def scan(precomp):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "pipeline.toml").write_text(f'[stage.pairs.ingest]\nprecomp = {{ folder = "{precomp}" }}\n')
        common = ["--quiet", "--store", folder / "store"]
        run("run", *common, folder / "pipeline.toml")
        parts = sorted((folder / "store").rglob("features/*.parquet"))
        arrays = sorted(precomp.glob("*_ims.npy"))
        size, npy = (sum(path.stat().st_size for path in paths) for paths in (parts, arrays))
        print(f"{size / 1e6:.1f} MB in {len(parts)} parts, {size / npy:.4f} of the npy files")

        def plain():
            buffer = bytearray(1 << 23)
            for part in parts:
                with part.open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass

        def table(part):
            column = pq.read_table(part, columns=["feature"]).column(0).combine_chunks()
            return column.values.to_numpy().reshape(len(column), -1)

        def pyarrow():
            for part in parts:
                table(part)

        def pyarrow_and_products():
            return max(np.einsum("ij,ij->i", some, some).max() for some in map(table, parts))

        def ours():
            run("sql", *common, "SELECT max(inner_product(feature, feature)) FROM pairs.features")

        def start():
            run("sql", *common, "SELECT count(*) FROM pairs.features")

        for title, work in (("bytes of the parts", plain), ("pyarrow", pyarrow), ("pyarrow, and largest product", pyarrow_and_products),
                            ("Pairloom, largest product", ours), ("Pairloom, number of rows", start)):  # fmt: skip
            times = []
            for _ in range(5):
                clock = time.perf_counter()
                work()
                times.append(time.perf_counter() - clock)
            print(f"{title}: {sorted(times)[2]:.3f} s, {size / 1e9 / sorted(times)[2]:.2f} GB/s", flush=True)


if __name__ == "__main__":
    what, flickr, *chosen = sys.argv[1:]
    flickr = Path(flickr).resolve()
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}, "
          f"open_clip {open_clip.__version__}\n")  # fmt: skip
    counts = [int(text) for text in chosen if text.isdigit()]
    names = [text for text in chosen if not text.isdigit()]
    if what == "parity":
        parity(flickr, names or NETWORKS, *counts)
    elif what == "mixed":
        parity(flickr, names or NETWORKS, *counts or [100], '\nprecision = "mixed"')
    elif what == "torchscript":
        torchscript(flickr, names or ["squeezenet1_0", "mobilenet_v2", "resnet50"], *counts)
    elif what == "scan":
        scan(flickr)
    elif what == "f64":
        f64(flickr, names or ["resnet18", "resnet50", "resnet101", "resnet152", "resnext101_32x8d"])
    elif what in ("speed", "speed_mixed"):
        names = names or ["squeezenet1_0", "resnet50", "vgg19", "ViT-B-32"]
        speed(flickr, names, *counts or [991], mixed=what == "speed_mixed")
    else:
        decoding(flickr)
