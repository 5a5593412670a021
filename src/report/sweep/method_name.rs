//! Names of methods as results and printed rows write them: `relaxed_greedy, lambda = 2, slices, over csls, k = 10`.

/// Name without parameters, with the method that corrects the scores: `relaxed_greedy over csls`.
pub(super) fn method_name(method: &str) -> String {
    let parts = method.split(", ").enumerate();
    let named = parts.filter(|(place, part)| *place == 0 || is_correction(part));
    named.map(|(_, part)| part).collect::<Vec<_>>().join(" ")
}

/// Parameters, and remarks such as `chosen on val`.
pub(super) fn parameters(method: &str) -> impl Iterator<Item = &str> {
    method.split(", ").skip(1).filter(|part| !is_correction(part))
}

fn is_correction(part: &str) -> bool {
    part.starts_with("over ")
}
