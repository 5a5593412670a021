//! Helpers for the tests of the parser.

use pairloom_kernels::text::spice::SceneGraph;

/// The tuples of a graph as SPICE's parser prints them: relations and attributes, or objects if there are neither.
pub(super) fn tuples(graph: &SceneGraph) -> Vec<String> {
    let attributes = graph.attributes.iter().map(|(object, attribute)| format!("{object}, is, {attribute}"));
    let relations =
        graph.relations.iter().map(|(subject, relation, object)| format!("{subject}, {relation}, {object}"));
    let tuples: Vec<String> = relations.chain(attributes).collect();
    if tuples.is_empty() { graph.objects.clone() } else { tuples }
}
