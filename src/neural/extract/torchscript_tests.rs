//! Tests of modules of the user's. `tests/golden/torchscript.py` wrote the module and its values by PyTorch; the other
//! modules have no weights, and their code is written here.

use std::io::{Cursor, Write as _};
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
use serde::Deserialize;
use serde_json::json;

use super::tests::{host, inline, png};
use crate::testing::RunOnHost as _;
use pairloom_base::error::{Error, ErrorCategory};
use pairloom_model::networks::testing::{differences, formula_image};
use pairloom_spec::stages::extract::{Extract, TorchScriptFile};
use pairloom_stage::{SourceRef, Stage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

#[derive(Deserialize)]
struct ModuleGolden {
    module: String,
    mean: [f32; 3],
    deviation: [f32; 3],
    sizes: Vec<[usize; 2]>,
    photographs: Vec<String>,
    rows: Vec<Vec<f32>>,
}

fn golden() -> ModuleGolden {
    serde_json::from_value(test_data::golden_json("torchscript.json")).unwrap()
}

/// Archive of a module without weights, whose `forward` has this signature and body.
fn archive(signature: &str, body: &str) -> Vec<u8> {
    let code = format!(
        "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n  def forward(self: __torch__.M, {signature}:\n    {body}\n"
    );
    let records: [(&str, &[u8]); 5] = [
        ("data.pkl", b"\x80\x02c__torch__\nM\n)\x81}X\x08\x00\x00\x00training\x88sb."),
        ("code/__torch__.py", code.as_bytes()),
        ("constants.pkl", b"\x80\x02)."),
        ("version", b"3\n"),
        ("byteorder", b"little"),
    ];
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in records {
        writer.start_file(format!("m/{name}"), zip::write::FileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Module of one tensor with this body.
fn module(body: &str) -> Vec<u8> {
    archive("x: Tensor) -> Tensor", body)
}

fn stage(more: serde_json::Value) -> Extract {
    let mut settings = json!({
        "images": "pairs.images", "torchscript": {"file": "module.pt"}, "resize": 40, "crop": 32, "batch_size": 4,
    });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(settings).unwrap()
}

/// Runs a stage over pictures with a module.
fn run(stage: &Extract, pictures: &[Vec<u8>], module: &[u8], threads: usize) -> Result<InMemoryHost, Error> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("module.pt"), module).unwrap();
    let mut host = host(&pictures.iter().cloned().map(inline).collect::<Vec<_>>());
    host.source_paths.insert("torchscript.file".into(), folder.path().join("module.pt"));
    host.resources.0.threads = threads;
    host.run_stage(stage).map(|()| host)
}

fn pictures() -> Vec<Vec<u8>> {
    (1..=6).map(png).collect()
}

fn features(host: &InMemoryHost) -> (Vec<f32>, usize) {
    let batch = host.output("features");
    let (values, width) = tables::vector_column(&batch, "feature").unwrap();
    (values.to_vec(), width)
}

fn formula_png([width, height]: [usize; 2]) -> Vec<u8> {
    let image = formula_image(width, height);
    let sides = [width, height].map(|side| u32::try_from(side).unwrap());
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&image.rgb, sides[0], sides[1], ExtendedColorType::Rgb8).unwrap();
    bytes
}

#[test]
fn features_of_a_traced_module_equal_pytorch() {
    let golden = golden();
    let mut pictures: Vec<Vec<u8>> = golden.sizes.iter().map(|&size| formula_png(size)).collect();
    if let Some(folder) = test_data::public("flickr8k-1k/images") {
        let read = |name: &String| std::fs::read(Path::new(&folder).join(name)).unwrap();
        pictures.extend(golden.photographs.iter().map(read));
    }
    let settings = json!({"file": "module.pt", "mean": golden.mean, "deviation": golden.deviation});
    let stage = stage(json!({"torchscript": settings, "resize": 112, "crop": 96, "batch_size": 2}));
    let module = BASE64_STANDARD.decode(&golden.module).unwrap();
    let whole = features(&run(&stage, &pictures, &module, 2).unwrap());
    assert_eq!((whole.0.len(), whole.1), (8 * pictures.len(), 8));
    let (_, relative) = differences(&whole.0, golden.rows.iter(), 8);
    println!("largest difference {relative:.1e} of the largest value of its row");
    assert!(relative < 2e-6, "{relative}");
    for threads in [1, 5] {
        assert_eq!(features(&run(&stage, &pictures, &module, threads).unwrap()), whole, "{threads} threads");
    }
    // The feature of an image does not depend on the others.
    let alone = features(&run(&stage, &pictures[1..2], &module, 1).unwrap());
    assert_eq!(alone.0, whole.0[8..16]);
}

/// By hand: means of channels of a picture whose pixels are all one colour.
#[test]
fn outputs_are_vectors_means_of_maps_grids_and_regions() {
    let rgb: Vec<u8> = [51u8, 102, 204].repeat(40 * 40);
    let mut picture = Vec::new();
    PngEncoder::new(&mut picture).write_image(&rgb, 40, 40, ExtendedColorType::Rgb8).unwrap();
    let plain = json!({"file": "module.pt", "mean": [0.2, 0.0, 0.0], "deviation": [1.0, 1.0, 0.5]});
    let colour = [0.0f32, 0.4, 1.6];
    let near = |got: &[f32], expected: &[f32]| {
        got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5)
    };
    let run_with = |more: serde_json::Value, body: &str| {
        let mut settings = json!({"torchscript": plain});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let stage = stage(settings);
        assert!(stage.check().iter().all(pairloom_base::error::Problem::is_warning), "{:?}", stage.check());
        run(&stage, &[picture.clone(), png(3)], &module(body), 2).unwrap()
    };
    let (values, width) = features(&run_with(json!({}), "return torch.mean(x, [2, 3])"));
    assert!(width == 3 && near(&values[..3], &colour), "{values:?}");
    let (halves, _) = features(&run_with(json!({}), "return torch.to(torch.mean(x, [2, 3]), 7)"));
    assert!(near(&halves, &values), "f64 is rounded: {halves:?}");
    let (maps, _) = features(&run_with(json!({"pooling": "average"}), "return torch.mul(x, 2.)"));
    assert!(near(&maps[..3], &colour.map(|value| 2.0 * value)), "{maps:?}");
    let (crops, _) = features(&run_with(json!({"ten_crop": true}), "return torch.mean(x, [2, 3])"));
    assert!(near(&crops[..3], &colour), "{crops:?}");
    let (unit, _) = features(&run_with(json!({"normalize": true}), "return torch.mean(x, [2, 3])"));
    assert!(near(&unit[3..], &unit[3..]) && (unit[3..].iter().map(|v| v * v).sum::<f32>() - 1.0).abs() < 1e-5);

    let host = run_with(json!({"pooling": {"grid": 2}}), "return x");
    let regions = host.output("regions");
    let (values, count, width) = tables::regions::values(&regions).unwrap();
    assert_eq!((count, width, host.output("region_boxes").num_rows()), (4, 3, 2));
    assert!(near(&values[..12], &colour.repeat(4)), "{values:?}");
    let host = run_with(
        json!({"pooling": {"regions": 5}, "normalize": true}),
        "return torch.slice(torch.flatten(x, 1), 1, 0, 10).view([-1, 5, 2])",
    );
    let regions = host.output("regions");
    let (values, count, width) = tables::regions::values(&regions).unwrap();
    assert_eq!((values.len(), count, width), (2 * 5 * 2, 5, 2));
    assert!(!host.output_tables.contains_key("region_boxes"));
}

#[test]
fn modules_that_do_not_fit_are_refused_with_the_reason() {
    let vector = "return torch.mean(x, [2, 3])";
    let signed = |signature: &str, body: &str| archive(signature, body);
    let cases: Vec<(Vec<u8>, &str, &str)> = vec![
        (b"a dog on a beach".to_vec(), "is a text file, expected an archive of TorchScript", "torch.jit.trace"),
        (vec![], "is empty (0 bytes)", "torch.jit.trace"),
        (module("return x"), "it returns [4, 3, 32, 32] for 4 images, expected [4, width]", "pooling = \"average\""),
        (module("return torch.flatten(x, 2)"), "it returns [4, 3, 1024] for 4 images", "regions = 3"),
        (module("return torch.view(x, [1, -1])"), "it returns [1, 12288] for 4 images", "`batch_size`"),
        (module("return torch.mean(x)"), "it returns [] for 4 images", ""),
        (module("return torch.to(torch.mean(x, [2, 3]), 3)"), "it returns a tensor of Int, expected f32", ""),
        (
            signed("x: Tensor) -> Tuple[Tensor, Tensor]", "return (x, x)"),
            "it returns a tuple, expected a tensor",
            "one of its",
        ),
        (
            signed("x: Tensor) -> Dict[str, Tensor]", "return {\"a\": x}"),
            "it returns a dict, expected a tensor",
            "one of its",
        ),
        (signed("x: Tensor) -> List[Tensor]", "return [x, x]"), "it returns a list, expected a tensor", "one of its"),
        (signed("x: Tensor) -> int", "return 3"), "it returns a number, expected a tensor", "one of its"),
        (signed("x: Tensor, y: Tensor) -> Tensor", "return x"), "missing value for argument 'y'", "one tensor"),
        (signed("x: str) -> str", "return x"), "Expected a value of type 'str'", "one tensor"),
        (
            module("return torch.matmul(x, torch.ones([5, 5]))"),
            "fails for images [4, 3, 32, 32] of f32: RuntimeError",
            "`crop`",
        ),
        (module("ops.prim.RaiseException(\"no such picture\")\n    return x"), "no such picture", "`crop`"),
        (module("return torch.rand_like(torch.mean(x, [2, 3]))"), "from call to call", "model.eval()"),
        (
            module("return torch.sub(torch.mean(x, [2, 3]), torch.select(torch.mean(x, [2, 3]), 0, 0))"),
            "other images of a batch",
            "",
        ),
        (module("return torch.unknown_operator(x)"), "libtorch cannot load it", "operators"),
        (
            module("return torch.div(torch.mean(x, [2, 3]), 0.)"),
            "the feature of `picture 0` holds a NaN or an infinity",
            "",
        ),
    ];
    for (bytes, expected, hint) in cases {
        let error = run(&stage(json!({})), &pictures(), &bytes, 2).map(|_| ()).unwrap_err();
        println!("{error}");
        assert!(error.to_string().contains(expected), "{error}, expected {expected}");
        assert!(!error.to_string().contains('\n') && error.category() != ErrorCategory::Internal, "{error}");
        assert!(error.hint_text().unwrap_or_default().contains(hint), "{error:?}");
    }
    for (pooling, body, expected) in [
        (json!("average"), vector, "it returns [4, 3] for 4 images, expected feature maps"),
        (json!({"grid": 2}), vector, "it returns [4, 3] for 4 images, expected feature maps"),
        (json!({"grid": 40}), "return x", "the feature maps have 32 × 32 cells, expected a grid of 40 × 40"),
        (
            json!({"regions": 2}),
            "return torch.flatten(x, 2)",
            "it returns [4, 3, 1024] for 4 images, expected [4, 2, width]",
        ),
    ] {
        let error = run(&stage(json!({"pooling": pooling})), &pictures(), &module(body), 2).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}, expected {expected}");
    }
    // A width that depends on the pictures.
    let ragged = module(
        "n = int(torch.sum(torch.gt(torch.amax(x, [1, 2, 3]), 2.1)))\n    return torch.ones([4, torch.add(n, 1)])",
    );
    let error = run(&stage(json!({})), &pictures(), &ragged, 1).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("it returned ") && error.contains(" values for an image, and 1 before"), "{error}");
    // What a module prints is dropped.
    run(&stage(json!({})), &pictures(), &module("print(\"dropped\")\n    return torch.mean(x, [2, 3])"), 1).unwrap();
}

#[test]
fn a_module_is_trusted_by_name_and_has_no_other_settings() {
    let problems = |more: serde_json::Value| -> Vec<(String, String, bool)> {
        let problems = stage(more).check().into_iter();
        problems.map(|problem| (problem.setting.clone(), problem.message.clone(), problem.is_warning())).collect()
    };
    let warning = "libtorch runs the code in this file, with the rights of this program";
    assert_eq!(problems(json!({})), [("torchscript.file".to_owned(), warning.to_owned(), true)]);
    let captions = json!({"table": "pairs.captions", "merges": "m.gz"});
    for (more, setting) in [
        (json!({"network": "resnet18"}), "network"),
        (json!({"weights": "random"}), "weights"),
        (json!({"layer": "layer3"}), "layer"),
        (json!({"captions": captions}), "captions"),
        (json!({"precision": "mixed"}), "precision"),
        (json!({"pooling": "logits"}), "pooling"),
        (json!({"pooling": {"regions": 0}}), "pooling.regions"),
        (json!({"pooling": {"regions": 4}, "ten_crop": true}), "ten_crop"),
        (json!({"torchscript": {"file": "m.pt", "deviation": [1.0, 0.0, 1.0]}}), "torchscript.deviation"),
    ] {
        let found = problems(more.clone());
        assert!(found.iter().any(|(name, _, is_warning)| name == setting && !is_warning), "{more}: {found:?}");
    }
    // Without a module, a network and its weights are needed.
    let bare: Extract = serde_json::from_value(json!({"images": "pairs.images"})).unwrap();
    let messages: Vec<String> = bare.check().into_iter().map(|problem| problem.message).collect();
    assert_eq!(messages, ["no network is set"]);
    let bare: Extract = serde_json::from_value(json!({"images": "pairs.images", "network": "vgg16"})).unwrap();
    let messages: Vec<String> = bare.check().into_iter().map(|problem| problem.message).collect();
    assert_eq!(messages, ["no weights of vgg16 are set"]);
    let bare = json!({"images": "pairs.images", "network": "vgg16", "weights": "random", "pooling": {"regions": 3}});
    let bare: Extract = serde_json::from_value(bare).unwrap();
    assert_eq!(bare.check()[0].message, "vgg16 returns no regions");

    let stage = stage(json!({"seed": 4}));
    let settings = stage.settings();
    assert_eq!(settings["pooling"], "embedding");
    assert!(settings.get("seed").is_none() && settings.get("network").is_none() && settings.get("weights").is_none());
    assert!(
        stage.inputs().iter().any(|input| input.name == "torchscript.file"),
        "the digest of the file is in the key"
    );
    let moved = Extract {
        torchscript: stage
            .torchscript
            .clone()
            .map(|module| TorchScriptFile { file: SourceRef::new("elsewhere.pt"), ..module }),
        ..stage.clone()
    };
    assert_eq!(moved.settings(), settings);
}
