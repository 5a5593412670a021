"""Writes vse_infinity.json, sgraf.json, vsrn.json, cvse.json and cvse_image_labels.json: scores of models over regions, a loss and its gradients, by
PyTorch 2.11 in double precision.

The formulas are those of the papers, written out for one image, one caption or one pair at a time. Images have one to four
regions; captions have two to six words. Scores are those of evaluation, with the running statistics of batch
normalisation. The loss is that of a training step: SUM with the statistics of the batch, without dropout and
augmentation, plus the auxiliary losses. "buffers" are the running statistics after the step.
"""

import json
import math
import pathlib

import torch
from torch.nn.functional import leaky_relu, linear, normalize, pad

assert torch.__version__.startswith("2.11.0")
torch.set_default_dtype(torch.float64)
IMAGE, WORDS, PLACES, MARGIN = 5, 11, 4, 0.2
COUNTS = [4, 3, 1, 4, 2]
CAPTIONS = [[1, 4, 2], [1, 5, 6, 7, 2], [3, 2], [1, 8, 9, 2], [1, 4, 4, 4, 10, 2]]


class Model:
    """Parameters by name, and the running statistics that a training step updates."""

    def __init__(self, settings):
        self.settings, self.parameters, self.buffers, self.is_training = settings, {}, {}, False
        self.fixed = set()  # parameters that are not trained

    def __getitem__(self, name):
        return self.parameters[name]

    def add(self, name, *shape, low=-0.8, high=0.8):
        self.parameters[name] = (low + (high - low) * torch.rand(*shape)).round(decimals=3)

    def add_linear(self, name, output, inputs, *more):
        self.add(f"{name}.weight", output, inputs, *more)
        self.add(f"{name}.bias", output)

    def add_gru(self, name, inputs, state, suffixes):
        for suffix in suffixes:
            self.add(f"{name}.weight_ih_l0{suffix}", 3 * state, inputs)
            self.add(f"{name}.weight_hh_l0{suffix}", 3 * state, state)
            self.add(f"{name}.bias_ih_l0{suffix}", 3 * state)
            self.add(f"{name}.bias_hh_l0{suffix}", 3 * state)

    def add_batch_norm(self, name, width):
        self.add(f"{name}.weight", width, low=0.5, high=1.5)
        self.add(f"{name}.bias", width)
        self.add(f"{name}.running_mean", width, low=-0.3, high=0.3)
        self.add(f"{name}.running_var", width, low=0.5, high=1.5)
        for part in ["running_mean", "running_var"]:
            self.buffers[f"{name}.{part}"] = self[f"{name}.{part}"].clone()

    def linear(self, name, x):
        return linear(x, self[f"{name}.weight"], self[f"{name}.bias"])

    def gru(self, name, x, suffix="", first=None):
        """States of a GRU over the rows of x, by its equations."""
        w_ih, w_hh = self[f"{name}.weight_ih_l0{suffix}"], self[f"{name}.weight_hh_l0{suffix}"]
        b_ih, b_hh = self[f"{name}.bias_ih_l0{suffix}"], self[f"{name}.bias_hh_l0{suffix}"]
        h = torch.zeros(w_hh.shape[1]) if first is None else first
        states = []
        for row in x:
            i_r, i_z, i_n = (w_ih @ row + b_ih).chunk(3)
            h_r, h_z, h_n = (w_hh @ h + b_hh).chunk(3)
            r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
            h = (1 - z) * torch.tanh(i_n + r * h_n) + z * h
            states.append(h)
        return torch.stack(states)

    def both_directions(self, name, x):
        return (self.gru(name, x) + self.gru(name, x.flip(0), "_reverse").flip(0)) / 2

    def batch_norm(self, name, values, update=True):
        """Normalises values [count, width]; in training by their own mean and biased variance."""
        if self.is_training and self.settings["batch_norm"] == "batch":
            mean, variance = values.mean(0), values.var(0, unbiased=False)
            if update and len(values) > 1:
                for part, new in [("running_mean", mean), ("running_var", values.var(0, unbiased=True))]:
                    old = self.buffers[f"{name}.{part}"]
                    self.buffers[f"{name}.{part}"] = 0.9 * old + 0.1 * new.detach()
        else:
            mean, variance = self[f"{name}.running_mean"], self[f"{name}.running_var"]
        return (values - mean) / torch.sqrt(variance + 1e-5) * self[f"{name}.weight"] + self[f"{name}.bias"]

    def rows_batch_norm(self, name, sets):
        """Batch normalisation of all rows of all sets together."""
        return list(self.batch_norm(name, torch.cat(sets)).split([len(one) for one in sets]))

    def word_states(self, caption, bidirectional):
        vectors = self["txt_enc.embed.weight"][caption]
        return self.both_directions("txt_enc.rnn", vectors) if bidirectional else self.gru("txt_enc.rnn", vectors)

    def add_captions(self, word, state, bidirectional):
        self.add("txt_enc.embed.weight", WORDS, word)
        self.add_gru("txt_enc.rnn", word, state, ["", "_reverse"] if bidirectional else [""])


class VseInfinity(Model):
    def __init__(self, settings):
        super().__init__(settings)
        d, word, pooling = settings["embed_size"], settings["word_dim"], settings["pooling_dim"]
        self.add_linear("img_enc.fc", d, IMAGE)
        if settings["region_mlp"]:
            self.add_linear("img_enc.mlp.layers.0", d // 2, IMAGE)
            self.add_batch_norm("img_enc.mlp.bns.0", d // 2)
            self.add_linear("img_enc.mlp.layers.1", d, d // 2)
        self.add_captions(word, d, settings["bidirectional"])
        for side in ["img_enc", "txt_enc"]:
            self.add_gru(f"{side}.gpool.gru", pooling, pooling, ["", "_reverse"])
            self.add(f"{side}.gpool.linear.weight", 1, pooling)

    def pool(self, name, x):
        width = self.settings["pooling_dim"]
        codes = [[f(k / 10000 ** (2 * i / width)) for i in range(width // 2) for f in (math.sin, math.cos)] for k in range(len(x))]
        states = self.both_directions(f"{name}.gru", torch.tensor(codes))
        weights = torch.softmax((states @ self[f"{name}.linear.weight"][0]) / 0.1, dim=0)
        return normalize((weights[:, None] * x.sort(dim=0, descending=True)[0]).sum(0), dim=0)

    def scores(self, images, captions):
        sets = [self.linear("img_enc.fc", image) for image in images]
        if self.settings["region_mlp"]:
            hidden = self.rows_batch_norm("img_enc.mlp.bns.0", [self.linear("img_enc.mlp.layers.0", image) for image in images])
            sets = [one + self.linear("img_enc.mlp.layers.1", h.clamp(min=0)) for one, h in zip(sets, hidden)]
        v = torch.stack([self.pool("img_enc.gpool", one) for one in sets])
        states = [self.word_states(caption, self.settings["bidirectional"]) for caption in captions]
        t = torch.stack([self.pool("txt_enc.gpool", one) for one in states])
        return v @ t.T, {}


class Sgraf(Model):
    def __init__(self, settings):
        super().__init__(settings)
        d, s = settings["embed_size"], settings["similarity_dim"]
        self.add_linear("img_enc.fc", d, IMAGE)
        self.add_captions(settings["word_dim"], d, settings["bidirectional"])
        for side in ["v", "t"]:
            name = f"sim_enc.{side}_global_w"
            self.add_linear(f"{name}.embedding_local.0", d, d)
            self.add_linear(f"{name}.embedding_global.0", d, d)
            self.add_linear(f"{name}.embedding_common.0", 1, d)
        self.add_batch_norm("sim_enc.v_global_w.embedding_local.1", PLACES)
        self.add_batch_norm("sim_enc.v_global_w.embedding_global.1", d)
        self.add_linear("sim_enc.sim_tranloc_w", s, d)
        self.add_linear("sim_enc.sim_tranglo_w", s, d)
        self.add_linear("sim_enc.sim_eval_w", 1, s)
        if settings["module"] == "sgr":
            for step in range(settings["reasoning_steps"]):
                for layer in ["graph_query_w", "graph_key_w", "sim_graph_w"]:
                    self.add_linear(f"sim_enc.SGR_module.{step}.{layer}", s, s)
        else:
            self.add_linear("sim_enc.SAF_module.attn_sim_w", 1, s)
            self.add_batch_norm("sim_enc.SAF_module.bn", 1)

    def places_batch_norm(self, name, sets):
        """Batch normalisation of each place over the images that have it and all features."""
        out = [[] for _ in sets]
        training = self.is_training and self.settings["batch_norm"] == "batch"
        for place in range(PLACES):
            part = lambda what: self[f"{name}.{what}"][place]
            values = torch.cat([one[place] for one in sets if place < len(one)])
            mean, variance = part("running_mean"), part("running_var")
            if training:
                mean, variance = values.mean(), values.var(unbiased=False)
                for what, new in [("running_mean", mean), ("running_var", values.var(unbiased=True))]:
                    buffer = self.buffers[f"{name}.{what}"] = self.buffers[f"{name}.{what}"].clone()
                    buffer[place] = 0.9 * buffer[place] + 0.1 * new.detach()
            for rows, one in zip(out, sets):
                if place < len(one):
                    rows.append((one[place] - mean) / torch.sqrt(variance + 1e-5) * part("weight") + part("bias"))
        return [torch.stack(rows) for rows in out]

    def global_vectors(self, side, sets):
        name = f"sim_enc.{side}_global_w"
        local = [self.linear(f"{name}.embedding_local.0", one) for one in sets]
        means = self.linear(f"{name}.embedding_global.0", torch.stack([one.mean(0) for one in sets]))
        if side == "v":
            local = self.places_batch_norm(f"{name}.embedding_local.1", local)
            means = self.batch_norm(f"{name}.embedding_global.1", means)
        out = []
        for one, l, g in zip(sets, local, means):
            logits = self.linear(f"{name}.embedding_common.0", l.tanh() * g.tanh())[:, 0]
            out.append(normalize((torch.softmax(logits, 0)[:, None] * one).sum(0), dim=0))
        return out

    def attention(self, regions, words):
        """Weights of the regions, a column for each word."""
        a = leaky_relu(regions @ words.T, 0.1)
        a = a / (a.norm(dim=1, keepdim=True) + 1e-8)
        return torch.softmax(self.settings["lambda_softmax"] * a, dim=0)

    def words_to_regions(self, image, caption):
        regions = normalize(self.linear("img_enc.fc", image), dim=1)
        words = normalize(self.word_states(caption, self.settings["bidirectional"]), dim=1)
        return self.attention(regions, words).T.flatten().tolist()

    def alignments(self, regions, v, words, t):
        attended = normalize(self.attention(regions, words).T @ regions, dim=1)
        local = normalize(self.linear("sim_enc.sim_tranloc_w", (attended - words) ** 2), dim=1)
        both = normalize(self.linear("sim_enc.sim_tranglo_w", (v - t) ** 2), dim=0)
        return torch.cat([both[None], local])

    def reason(self, s):
        for step in range(self.settings["reasoning_steps"]):
            query, key, graph = [f"sim_enc.SGR_module.{step}.{layer}" for layer in ["graph_query_w", "graph_key_w", "sim_graph_w"]]
            edges = torch.softmax(self.linear(query, s) @ self.linear(key, s).T, dim=1)
            s = self.linear(graph, edges @ s).clamp(min=0)
        return s[0]

    def column(self, of_images):
        """Vectors of one caption with all images."""
        if self.settings["module"] == "sgr":
            return [self.reason(s) for s in of_images]
        logits = [self.linear("sim_enc.SAF_module.attn_sim_w", s) for s in of_images]
        gates = [torch.sigmoid(one)[:, 0] for one in self.rows_batch_norm("sim_enc.SAF_module.bn", logits)]
        return [normalize(((g / (g.sum() + 1e-8))[:, None] * s).sum(0), dim=0) for g, s in zip(gates, of_images)]

    def scores(self, images, captions):
        regions = [normalize(self.linear("img_enc.fc", image), dim=1) for image in images]
        words = [normalize(self.word_states(caption, self.settings["bidirectional"]), dim=1) for caption in captions]
        v, t = self.global_vectors("v", regions), self.global_vectors("t", words)
        columns = {}
        # Published code sorts the captions of a batch from long to short.
        for caption in sorted(range(len(captions)), key=lambda caption: -len(captions[caption])):
            found = self.column([self.alignments(r, g, words[caption], t[caption]) for r, g in zip(regions, v)])
            columns[caption] = torch.sigmoid(self.linear("sim_enc.sim_eval_w", torch.stack(found)))[:, 0]
        return torch.stack([columns[caption] for caption in range(len(captions))], dim=1), {}


class Vsrn(Model):
    def __init__(self, settings):
        super().__init__(settings)
        d, h, w = settings["embed_size"], settings["caption_dim"], settings["caption_word_dim"]
        self.add_linear("img_enc.fc", d, IMAGE)
        for layer in range(1, settings["reasoning_layers"] + 1):
            for part in ["g", "theta", "phi", "W.0"]:
                self.add_linear(f"img_enc.Rs_GCN_{layer}.{part}", d, d, 1)
            self.add_batch_norm(f"img_enc.Rs_GCN_{layer}.W.1", d)
        self.add_gru("img_enc.img_rnn", d, d, [""])
        if settings["output_batch_norm"]:
            self.add_batch_norm("img_enc.bn", d)
        self.add_captions(settings["word_dim"], d, False)
        if settings["caption_weight"] > 0:
            self.add_linear("caption.vid2hid", h, d)
            self.add_gru("caption.encoder", h, h, [""])
            self.add("caption.embed.weight", WORDS, w)
            self.add_linear("caption.attention.0", h, 2 * h)
            self.add("caption.attention.1.weight", 1, h)
            self.add_gru("caption.decoder", w + h, h, [""])
            self.add_linear("caption.out", WORDS, h)

    def convolution(self, name, x):
        return x @ self[f"{name}.weight"][:, :, 0].T + self[f"{name}.bias"]

    def normalized(self, v):
        return normalize(v, dim=1 if self.settings["normalization"] == "features" else 0)

    def caption_loss(self, regions, caption):
        outputs = self.gru("caption.encoder", self.linear("caption.vid2hid", regions))
        state, loss = outputs[-1], 0.0
        for word, following in zip(caption, caption[1:]):
            inputs = torch.stack([torch.cat([output, state]) for output in outputs])
            logits = torch.tanh(self.linear("caption.attention.0", inputs)) @ self["caption.attention.1.weight"][0]
            context = (torch.softmax(logits, 0)[:, None] * outputs).sum(0)
            row = torch.cat([self["caption.embed.weight"][word], context])
            state = self.gru("caption.decoder", row[None], first=state)[0]
            loss = loss - torch.log_softmax(self.linear("caption.out", state), 0)[following]
        return loss

    def scores(self, images, captions):
        sets = [self.linear("img_enc.fc", image) for image in images]
        if self.settings["normalize_input"]:
            sets = [self.normalized(v) for v in sets]
        for layer in range(1, self.settings["reasoning_layers"] + 1):
            name, updates = f"img_enc.Rs_GCN_{layer}", []
            for v in sets:
                affinity = self.convolution(f"{name}.theta", v) @ self.convolution(f"{name}.phi", v).T / len(v)
                updates.append(self.convolution(f"{name}.W.0", affinity @ self.convolution(f"{name}.g", v)))
            sets = [v + update for v, update in zip(sets, self.rows_batch_norm(f"{name}.W.1", updates))]
        sets = [self.normalized(v) for v in sets]
        last = torch.stack([self.gru("img_enc.img_rnn", v)[-1] for v in sets])
        if self.settings["output_batch_norm"]:
            last = self.batch_norm("img_enc.bn", last)
        t = torch.stack([self.word_states(caption, False)[-1] for caption in captions])
        losses = {}
        if self.settings["caption_weight"] > 0:
            total = sum(self.caption_loss(v, caption) for v, caption in zip(sets, captions))
            losses["caption"] = self.settings["caption_weight"] * total / len(captions)
        return normalize(last, dim=1) @ normalize(t, dim=1).T, losses


class Cvse(Sgraf):
    CONCEPTS = 3

    def __init__(self, settings):
        Model.__init__(self, settings)
        d, w = settings["embed_size"], settings["word_dim"]
        self.add_linear("img_enc.fc", d, IMAGE)
        self.add_captions(w, d, settings["bidirectional"])
        for side in ["V_att", "T_att", "V_consensus_att", "T_consensus_att"]:
            self.add_linear(f"{side}.embedding_1.0", d, d)
            self.add_linear(f"{side}.embedding_2.0", d, d)
            self.add_linear(f"{side}.embedding_3.0", 1, d)
        self.add_batch_norm("V_att.embedding_1.1", PLACES)
        self.add_batch_norm("V_att.embedding_2.1", d)
        for side in ["V_consensus_att", "T_consensus_att"]:
            self.add_batch_norm(f"{side}.embedding_1.1", d)
            self.add_batch_norm(f"{side}.embedding_2.1", d)
        self.add("C_GCN.gc1.weight", w, d // 2)
        self.add("C_GCN.gc2.weight", d // 2, d)
        self.parameters["C_GCN.adj_all"] = torch.tensor([[1.0, 0.25, 0.125], [0.125, 1.0, 0.125], [0.0, 0.0, 1.0]])
        self.add("concepts.vectors", self.CONCEPTS, w)
        self.parameters["concepts.of_words"] = torch.tensor([-1.0, -1, -1, -1, 0, 1, -1, 2, 0, -1, 2])
        self.fixed = {"C_GCN.adj_all", "concepts.vectors", "concepts.of_words"}

    def concepts(self):
        a = self["C_GCN.adj_all"]
        d = torch.diag(a.sum(1) ** -0.5)
        a = (a @ d).T @ d
        hidden = leaky_relu(a @ (self["concepts.vectors"] @ self["C_GCN.gc1.weight"]), 0.2)
        return normalize(a @ (hidden @ self["C_GCN.gc2.weight"]), dim=1)

    def attended(self, name, x, gate_of_x, gate):
        logits = [self.linear(f"{name}.embedding_3.0", row * gate)[0] for row in gate_of_x]
        return normalize((torch.softmax(torch.stack(logits), 0)[:, None] * x).sum(0), dim=0)

    def instances_of_images(self, sets):
        local = [self.linear("V_att.embedding_1.0", one) for one in sets]
        local = self.places_batch_norm("V_att.embedding_1.1", local)
        means = self.linear("V_att.embedding_2.0", torch.stack([one.mean(0) for one in sets]))
        means = self.batch_norm("V_att.embedding_2.1", means)
        return [self.attended("V_att", one, l.tanh(), m.tanh()) for one, l, m in zip(sets, local, means)]

    def instance_of_caption(self, words):
        mean = normalize(words.mean(0), dim=0)
        gate = self.linear("T_att.embedding_2.0", mean).tanh()
        return self.attended("T_att", words, self.linear("T_att.embedding_1.0", words).tanh(), gate)

    def weights(self, name, z, instances):
        """Predicted weights of the concepts, for each instance vector."""
        of_concepts = self.batch_norm(f"{name}.embedding_1.1", self.linear(f"{name}.embedding_1.0", z)).tanh()
        gates = self.linear(f"{name}.embedding_2.0", torch.stack(instances))
        gates = self.batch_norm(f"{name}.embedding_2.1", gates).tanh()
        logits = [[self.linear(f"{name}.embedding_3.0", c * gate)[0] for c in of_concepts] for gate in gates]
        return [torch.softmax(10 * torch.stack(row), 0) for row in logits]

    def label(self, caption):
        label = torch.zeros(self.CONCEPTS)
        for word in caption:
            concept = int(self["concepts.of_words"][word])
            if concept >= 0:
                label[concept] = 1
        return torch.softmax(10 * label, 0)

    def level_loss(self, v, t):
        (kind, of_loss), = self.settings["level_loss"].items()
        scores, total = torch.stack(v) @ torch.stack(t).T, 0.0
        for i in range(len(v)):
            others = [j for j in range(len(v)) if j != i]
            for costs in [scores[i, others] - scores[i, i], scores[others, i] - scores[i, i]]:
                costs = (of_loss["margin"] + costs).clamp(min=0)
                total = total + (costs.max() if kind == "max" else costs.sum())
        return total

    def scores(self, images, captions):
        settings = self.settings
        beta, alpha = settings["fusion_weight"], settings["label_weight"]
        v = self.instances_of_images([normalize(self.linear("img_enc.fc", image), dim=1) for image in images])
        own = [caption[: caption.index(0)] if 0 in caption else caption for caption in captions]
        words = [normalize(self.word_states(caption, settings["bidirectional"]), dim=1) for caption in own]
        t = [self.instance_of_caption(one) for one in words]
        z = self.concepts()
        p_v, p_t = self.weights("V_consensus_att", z, v), self.weights("T_consensus_att", z, t)
        if self.is_training or settings["concept_labels"] != "training":
            p_t = [alpha * self.label(caption) + (1 - alpha) * p for caption, p in zip(captions, p_t)]
        consensus_v, consensus_t = [[normalize(p @ z, dim=0) for p in side] for side in [p_v, p_t]]
        fuse = lambda x, c: normalize(beta * x + (1 - beta) * c, dim=0)
        fused_v, fused_t = [[fuse(x, c) for x, c in zip(*side)] for side in [(v, consensus_v), (t, consensus_t)]]
        divergence = sum((b * (b.log() - a.log())).sum() for a, b in zip(p_v, p_t))
        losses = {"instance": settings["instance_weight"] * self.level_loss(v, t)}
        losses["consensus"] = settings["consensus_weight"] * self.level_loss(consensus_v, consensus_t)
        losses["concepts"] = settings["concept_weight"] * divergence
        return torch.stack(fused_v) @ torch.stack(fused_t).T, losses


def dump(tensors):
    return {name: {"shape": list(value.shape), "values": value.flatten().tolist()} for name, value in tensors.items()}


def case(kind, images, captions, settings):
    model = kind(settings)
    untrained = model.fixed | set(model.buffers)
    trained = {name: value.requires_grad_() for name, value in model.parameters.items() if name not in untrained}
    out = {"settings": settings, "parameters": dump(model.parameters)}
    with torch.no_grad():
        out["scores"] = model.scores(images, captions)[0].flatten().tolist()
        if kind is Sgraf:
            out["attention"] = [model.words_to_regions(*pair) for pair in zip(images, captions)]
    model.is_training = True
    scores, losses = model.scores(images, captions)
    matching, away = scores.diag(), torch.eye(len(scores), dtype=torch.bool)
    by_image = (MARGIN + scores - matching[:, None]).clamp(min=0).masked_fill(away, 0)
    by_caption = (MARGIN + scores - matching[None, :]).clamp(min=0).masked_fill(away, 0)
    loss = by_image.sum() + by_caption.sum() + sum(losses.values())
    gradients = torch.autograd.grad(loss, list(trained.values()))
    out |= {"auxiliary": {name: value.item() for name, value in losses.items()}, "loss": loss.item()}
    return out | {"gradients": dump(dict(zip(trained, gradients))), "buffers": dump(model.buffers)}


def write(name, kind, all_settings, captions=CAPTIONS, **more):
    torch.manual_seed(20261124)
    images = [torch.randn(count, IMAGE).round(decimals=3).float().double() for count in COUNTS]
    out = {"width": IMAGE, "places": PLACES, "words": WORDS, "margin": MARGIN, "captions": captions} | more
    out["images"] = torch.stack([pad(image, (0, 0, 0, PLACES - len(image))) for image in images]).flatten().tolist()
    out["cases"] = [case(kind, images, captions, settings) for settings in all_settings]
    (pathlib.Path(__file__).parent / f"{name}.json").write_text(json.dumps(out))


pooled = {"embed_size": 4, "word_dim": 3, "pooling_dim": 4, "size_augmentation": 0.0}
forms = [(True, True, "batch"), (False, True, "batch"), (True, False, "batch"), (True, True, "frozen")]
names = ["bidirectional", "region_mlp", "batch_norm"]
write("vse_infinity", VseInfinity, [pooled | dict(zip(names, form)) for form in forms])
aligned = {"embed_size": 4, "word_dim": 3, "bidirectional": True, "similarity_dim": 3, "reasoning_steps": 2}
aligned |= {"lambda_softmax": 9.0, "dropout": 0.0}
forms = [("sgr", "batch"), ("saf", "batch"), ("saf", "frozen")]
write("sgraf", Sgraf, [aligned | {"module": module, "batch_norm": statistics} for module, statistics in forms])
reasoned = {"embed_size": 4, "word_dim": 3, "reasoning_layers": 2, "caption_dim": 3, "caption_word_dim": 3, "dropout": 0.0}
forms = [("features", True, False, "batch", 0.0), ("regions", True, False, "batch", 0.0)]
forms += [("features", False, True, "batch", 0.5), ("features", False, True, "frozen", 1.0)]
names = ["normalization", "normalize_input", "output_batch_norm", "batch_norm", "caption_weight"]
write("vsrn", Vsrn, [reasoned | dict(zip(names, form)) for form in forms])
with_concepts = {"embed_size": 4, "word_dim": 3, "dropout": 0.0}
weights = ["fusion_weight", "label_weight", "instance_weight", "consensus_weight", "concept_weight"]
names = ["bidirectional", "concept_labels", "batch_norm", "level_loss"] + weights
hardest, all_negatives = {"max": {"margin": 0.2}}, {"sum": {"margin": 0.1}}
forms = [(True, "caption", "batch", hardest, 0.75, 0.4, 1.5, 0.5, 0.75), (False, "caption", "batch", all_negatives, 0.85, 0.35, 1.0, 1.0, 1.0)]
forms += [(True, "training", "batch", hardest, 0.5, 0.6, 0.5, 2.0, 0.25), (True, "training", "frozen", hardest, 0.9, 0.4, 1.5, 0.5, 0.5)]
write("cvse", Cvse, [with_concepts | dict(zip(names, form)) for form in forms], concepts=Cvse.CONCEPTS)
forms = [(True, "leaky_image", statistics, hardest, 0.75, 0.4, 1.5, 0.5, 0.75) for statistics in ["batch", "frozen"]]
of_images = [[1, 4, 2, 0, 5, 6], [1, 5, 6, 7, 2, 0], [3, 2, 0, 8, 10], [1, 8, 9, 2, 0, 4, 7], [1, 4, 4, 4, 10, 2]]
write("cvse_image_labels", Cvse, [with_concepts | dict(zip(names, form)) for form in forms], of_images, concepts=Cvse.CONCEPTS)
