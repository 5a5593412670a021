//! `train` with a family whose score is no inner product of two vectors: it learns, resumes to the bit, validates, and refuses
//! what its family cannot do.

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int64Type};

use super::Train;
use super::tests::{description, world};
use crate::stage::Stage;
use crate::stages::testing;

fn stage(more: &str) -> Train {
    let text = format!(
        "features = \"x.features\"\ncaptions = \"x.captions\"\nbatch = 16\nmodel = {{ late = {{}} }}\nmin_count = 1\n\
         learning_rate = 0.01\nseed = 5\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

/// Eight images of which no two are alike: chance gives about 12 + 60 + 100 in either direction.
#[test]
fn a_family_of_sets_learns_what_there_is_to_learn() {
    let stage = stage("epochs = 40\nloss = { sum = {} }");
    assert_eq!(stage.check(), []);
    let mut world = world();
    world.run(&stage).expect("a training");
    assert!(description(&world).rsum.expect("a validation split") > 500.0, "{:?}", description(&world).rsum);
    let history = world.output("history");
    let losses = history["loss"].as_primitive::<Float64Type>().values();
    let mean = |range: std::ops::Range<usize>| losses[range].iter().sum::<f64>() / 5.0;
    assert!(mean(195..200) < 0.5 * mean(0..5), "{} to {}", mean(0..5), mean(195..200));

    // 200 steps, each with both losses by their names.
    let auxiliary = world.output("auxiliary_losses");
    assert!(auxiliary["step"].as_primitive::<Int64Type>().values().iter().copied().eq((0..400).map(|row| row / 2)));
    let names = auxiliary["name"].as_string::<i32>();
    assert!((0..400).all(|row| names.value(row) == ["word_norm", "image_spread"][row % 2]));
    let values = auxiliary["value"].as_primitive::<Float64Type>().values();
    assert!(values[399] < 0.8 * values[1], "the spread of images is pushed down: {} to {}", values[1], values[399]);
}

#[test]
fn a_resumed_training_of_a_family_of_sets_is_the_same_to_the_bit() {
    let stage = stage("epochs = 3\ncheckpoint_steps = 2");
    let tables = ["history", "auxiliary_losses", "validation"];
    assert!(testing::resumed_wherever_it_is_cut(&stage, world, &tables) > 4);
}

#[test]
fn what_a_family_cannot_do_is_refused_when_the_file_is_checked() {
    let refused = |more: &str| -> Vec<(String, String)> {
        let problems = stage(&format!("epochs = 2\n{more}")).check();
        problems.into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    let bank = refused("loss = { hal = {} }\nbank = {}");
    let wanted = "a model of `late` has no score that follows from one vector of each side";
    assert_eq!(bank, [("bank".to_owned(), wanted.to_owned())]);
    let names = |more: &str| refused(more).into_iter().map(|(setting, _)| setting).collect::<Vec<_>>();
    assert_eq!(names("precision = \"mixed\""), ["precision"]);
    let narrow = Train {
        model: serde_json::from_value(serde_json::json!({"late": {"width": 0}})).unwrap(),
        ..stage("epochs = 1")
    };
    assert_eq!(narrow.check()[0].setting, "model.late.width");
}
