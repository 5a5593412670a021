"""Reader of exports, run by `export.rs`: what Python programs find in a `*_precomp` folder and in tar files, as JSON.

python3 export_reader.py PRECOMP TARS

A `*_precomp` folder is read as the published loaders of VSE++ do: an array, captions by lines, and five of them an image
if there are more captions than images. Without numpy that part is left out.
"""

import glob
import io
import json
import sys
import tarfile

try:
    import numpy
except ImportError:
    numpy = None

folder, tars = sys.argv[1:]
splits = {}
for split in ("train", "dev", "test") if numpy else ():
    images = numpy.load(f"{folder}/{split}_ims.npy")
    with open(f"{folder}/{split}_caps.txt", "rb") as lines:
        captions = [line.strip() for line in lines]
    captions_of_image = 1 if len(images) == len(captions) else 5
    pairs = [(images[i // captions_of_image], caption.decode("utf-8")) for i, caption in enumerate(captions)]
    splits[split] = {
        "shape": images.shape,
        "dtype": str(images.dtype),
        "last": [pairs[-1][0].tolist(), pairs[-1][1]],
    }

samples = {}
for path in sorted(glob.glob(f"{tars}/*.tar")):
    with tarfile.open(path) as archive:
        for member in archive:
            key, extension = member.name.split(".", 1)
            samples.setdefault(key, {})[extension] = archive.extractfile(member).read()
pictures = []
for key, files in samples.items():
    record = json.load(io.BytesIO(files.pop("json")))
    caption = files.pop("txt").decode("utf-8")
    ((extension, picture),) = files.items()
    size = [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)]
    pictures.append([key, extension, size, caption, record["split"], record["captions"]])
json.dump({"splits": splits, "pictures": pictures}, sys.stdout)
