//! The examples of the HTML page: one card a query.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use super::elements::{Example, Hit, Picture, place};

/// All examples of a direction.
pub(super) fn section(direction: &str, examples: &[Example]) -> Markup {
    html! {
        @if !examples.is_empty() {
            section {
                h2 { "Examples: " (direction) }
                div.examples {
                    @for example in examples {
                        article class=(class(example.rank)) { (card(example)) }
                    }
                }
            }
        }
    }
}

fn class(rank: i64) -> &'static str {
    match rank {
        ..=0 => "good",
        1..=9 => "middling",
        _ => "bad",
    }
}

fn card(example: &Example) -> Markup {
    let of_pictures = example.found.iter().chain(&example.missed).any(|hit| hit.picture.is_some());
    html! {
        header {
            @if let Some(picture) = &example.picture { (image(picture, &example.text)) }
            div {
                p.query { @if example.picture.is_some() { code { (example.text) } } @else { "“" (example.text) "”" } }
                p.verdict { "best match in " strong { (place(example.rank)) } " place" }
            }
        }
        @if of_pictures {
            ol.pictures { @for hit in &example.found { li.right[hit.right] { (picture(hit)) } } }
        } @else {
            ol.texts { @for hit in &example.found { li.right[hit.right] { (text(hit)) } } }
        }
        @if !example.missed.is_empty() {
            p.verdict { "right would have been" }
            @if of_pictures {
                ul.pictures { @for hit in &example.missed { li.right { (picture(hit)) } } }
            } @else {
                ul.texts { @for hit in &example.missed { li.right { (text(hit)) } } }
            }
        }
    }
}

fn picture(hit: &Hit) -> Markup {
    html! {
        @match &hit.picture {
            Some(picture) => { (image(picture, &hit.text)) }
            None => { div.absent { (hit.text) } }
        }
        (score(hit))
    }
}

fn text(hit: &Hit) -> Markup {
    html! { span { (hit.text) } (score(hit)) }
}

/// The score, and for eyes and screen readers alike whether the item is right.
fn score(hit: &Hit) -> Markup {
    html! {
        small {
            @if let Some(score) = hit.score { (format!("{score:.3}")) }
            @if hit.right { " " b title="matches the query" { "✓" } }
        }
    }
}

fn image(picture: &Picture, name: &str) -> Markup {
    html! { img src=(format!("data:image/jpeg;base64,{}", STANDARD.encode(&picture.0))) alt=(name) title=(name); }
}
