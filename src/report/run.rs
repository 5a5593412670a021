//! Run of `report`: reads the tables, builds the document, writes both pages, and the tables of a sweep in LaTeX.

use super::document::Document;
use super::item_labels::ItemLabels;
use super::page_data::SummaryResults;
use super::settings::Report;
use super::sweep::{self, SweepReport};
use super::{
    attention, curves, examples, graphs, html, hubs, lineage_section, markdown, page_data, results, similarity,
};
use pairloom_base::error::{Error, Result};
use pairloom_stage::{RunnableStage, StageContext};

impl RunnableStage for Report {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let sweep = self.sweep.as_ref().map(|sweep| SweepReport::read(sweep, cx)).transpose()?;
        let document = self.document(cx, sweep.as_ref())?;
        if let Some(sweep) = &sweep {
            cx.put_file("page", "table.tex", sweep::latex_file(&self.title, sweep).into())?;
        }
        cx.put_file("page", "report.md", markdown::page(&document).into())?;
        cx.put_file("page", "report.html", html::page(&document).into())
    }
}

impl Report {
    fn document(&self, cx: &mut StageContext<'_>, sweep: Option<&SweepReport>) -> Result<Document> {
        let mut sections = Vec::new();
        let mut labels = ItemLabels::new(self.captions.is_some(), self.images.is_some());
        let found = self.results(cx)?;
        if !found.rows.is_empty() {
            sections.push(results::section(&found));
        }
        if let Some(sweep) = sweep {
            sections.extend(sweep::sections(sweep)?);
        }
        if self.metrics.is_some() {
            sections.extend(results::graded_sections(cx)?);
        }
        if !self.significance_tests.is_empty() {
            let inputs = (0..self.significance_tests.len()).map(|number| format!("significance_tests.{number}"));
            sections.push(results::significance_section(cx, &inputs.collect::<Vec<_>>())?);
        }
        for number in 0..self.correlations.len() {
            sections.push(results::agreement_section(cx, &format!("correlations.{number}"))?);
        }
        let steps = if self.history.is_some() { page_data::read_history(cx)? } else { Vec::new() };
        let epochs = if self.validation.is_some() { page_data::read_validation(cx, "validation")? } else { Vec::new() };
        let first = found.rows.first().filter(|_| self.rankings.is_some());
        let rankings = first.map(|row| examples::read(cx, row, self.examples, self.seed)).transpose()?;
        let ranks = rankings.as_ref().zip(first).map(|(rankings, pool)| curves::rank_figure(&rankings.ranks, pool));
        sections.extend(curves::section(&steps, &epochs, ranks.transpose()?.flatten())?);
        sections.extend(curves::validation_section(&epochs));
        if self.hubs.is_some()
            && let Some(hubs) = hubs::read(cx, &found.rows, &mut labels)?
        {
            sections.push(hubs::section(&hubs, &found)?);
        }
        if self.similarity.is_some() {
            sections.push(similarity::section(&similarity::read(cx, self.examples)?)?);
        }
        if self.graphs.is_some() {
            sections.extend(graphs::section(cx, self.examples, self.seed)?);
        }
        if self.attention.is_some() {
            sections.extend(attention::section(cx, self.examples, &mut labels)?);
        }
        if let Some(rankings) = &rankings {
            sections.extend(examples::sections(cx, rankings, &mut labels)?);
        }
        let lineage = cx.lineage()?;
        sections.extend(match sweep {
            Some(_) => lineage_section::section_of_first_run(&sweep::without_other_runs(&lineage))?,
            None => lineage_section::section(&lineage)?,
        });
        let mut intro = results::intro(&found);
        intro.extend(sweep.into_iter().flat_map(sweep::intro));
        Ok(Document { title: self.title.clone(), intro, sections })
    }

    fn results(&self, cx: &mut StageContext<'_>) -> Result<SummaryResults> {
        let Some(summary) = &self.summary else { return Ok(SummaryResults::default()) };
        let mut results = page_data::read_results(cx, "summary")?;
        if results.rows.is_empty() {
            return Err(Error::data(format!("`{summary}` has no rows, so there is nothing to report")));
        }
        if self.metrics.is_some() {
            page_data::add_intervals(cx, &mut results)?;
        }
        Ok(results)
    }
}
