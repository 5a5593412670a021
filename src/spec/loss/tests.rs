//! Defaults of the settings of losses, and their problems.

use super::*;

fn objective(loss: Loss, semantic_margin: Option<SemanticMargin>) -> Objective {
    Objective { loss, semantic_margin }
}

#[test]
fn settings_have_the_defaults_of_the_papers() {
    let read = |text: &str| serde_json::from_str::<Loss>(text).expect("a loss");
    assert_eq!(read(r#"{"sum":{}}"#), Loss::Sum(SumLoss { margin: 0.2 }));
    assert_eq!(read(r#"{"knn_margin":{}}"#), Loss::KnnMargin(KnnMarginLoss::default()));
    assert_eq!(read(r#"{"local_scaling":{}}"#), Loss::LocalScaling(LocalScalingLoss::default()));
    assert_eq!(read(r#"{"hal":{}}"#), Loss::Hal(HalLoss::default()));
    assert_eq!(read(r#"{"info_nce":{}}"#), Loss::InfoNce(InfoNceLoss { temperature: 0.07, learned: false }));
    assert!(serde_json::from_str::<Loss>(r#"{"max":{"marign":0.2}}"#).is_err());
    assert_eq!(serde_json::from_str::<SemanticMargin>("{}").expect("margins"), SemanticMargin::default());
}

#[test]
fn invalid_settings_are_reported() {
    let problems_of = |objective: &Objective, pairs| -> Vec<String> {
        let batches = BatchSpec { pairs, never_positive: false, sums: false };
        objective.problems(batches).into_iter().map(|(setting, message)| format!("{setting}: {message}")).collect()
    };
    assert_eq!(
        problems_of(&objective(Loss::KnnMargin(KnnMarginLoss { margin: -1.0, k: 8 }), None), 8),
        [
            "loss.knn_margin.margin: got -1, wanted 0 or more",
            "loss.knn_margin.k: got 8, wanted at most 7: the negatives of each in a batch of 8"
        ]
    );
    let margins = SemanticMargin { temperature: 0.0, keep_triplet: false, ..SemanticMargin::default() };
    let mut beside = objective(Loss::Hal(HalLoss::default()), Some(margins));
    assert_eq!(problems_of(&beside, 8), ["semantic_margin.temperature: got 0, wanted a number above 0"]);
    beside.semantic_margin = Some(SemanticMargin::default());
    assert!(problems_of(&beside, 8)[0].starts_with("semantic_margin: got `keep_triplet = true` with the loss `hal`"));
}
