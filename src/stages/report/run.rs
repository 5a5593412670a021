//! The work of `report`: read, compute, write the two pages.

use super::content::Content;
use super::examples::Things;
use super::settings::Report;
use super::{agreement, contrasts, examples, graded, graphs, html, hubs, markdown, meaning, read, similarity};
use crate::error::{Error, Result};
use crate::stage::{Cx, Run};

impl Run for Report {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let mut content = Content { title: self.title.clone(), ..Content::default() };
        let mut things = Things::default();
        if let Some(summary) = &self.summary {
            (content.cutoffs, content.results) = read::results(cx)?;
            if content.results.is_empty() {
                return Err(Error::data(format!("`{summary}` has no rows, so there is nothing to report")));
            }
        }
        if self.metrics.is_some() {
            read::add_intervals(cx, &content.cutoffs, &mut content.results)?;
            content.sheets.extend(graded::sheets(cx)?);
        }
        for number in 0..self.contrasts.len() {
            content.sheets.push(contrasts::sheet(cx, &format!("contrasts.{number}"))?);
        }
        for number in 0..self.correlations.len() {
            content.sheets.push(agreement::sheet(cx, &format!("correlations.{number}"))?);
        }
        if self.similarity.is_some() {
            let found = similarity::read(cx, self.examples)?;
            content.sheets.push(meaning::sheet(&found));
            content.similarity = Some(found);
        }
        if self.graphs.is_some() {
            content.graphs = graphs::read(cx, self.examples, self.seed)?;
            graphs::texts(cx, &mut content.graphs)?;
        }
        if self.hubs.is_some() {
            content.relaxations = read::relaxations(&content.results);
            content.hubs =
                hubs::read(cx, &content.results, &mut things, self.captions.is_some(), self.images.is_some())?;
        }
        if self.history.is_some() {
            content.history = read::history(cx)?;
        }
        if self.validation.is_some() {
            content.validation = read::validation(cx)?;
        }
        if let Some(first) = content.results.first().filter(|_| self.rankings.is_some()) {
            let rankings = examples::read(cx, &first.protocol, &first.method, self.examples, self.seed)?;
            content.rank_curves = [0, 1].map(|direction: usize| rankings.ranks[direction].cumulative());
            content.examples =
                examples::resolve(cx, &rankings, &mut things, self.captions.is_some(), self.images.is_some())?;
        }
        cx.put_file("page", "report.md", markdown::page(&content).into())?;
        cx.put_file("page", "report.html", html::page(&content)?.into())
    }
}
