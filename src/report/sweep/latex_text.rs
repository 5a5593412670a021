//! Texts and numbers in LaTeX, for any engine and without packages.

/// Escapes a text. Letters and signs that pdfLaTeX does not know in its default encoding become question marks.
pub(super) fn escaped(text: &str) -> String {
    text.chars().map(escaped_char).collect()
}

fn escaped_char(c: char) -> String {
    let known = match c {
        '\\' => "\\textbackslash{}",
        '~' => "\\textasciitilde{}",
        '^' => "\\textasciicircum{}",
        '<' => "\\textless{}",
        '>' => "\\textgreater{}",
        '|' => "\\textbar{}",
        '"' => "''",
        '±' => "$\\pm$",
        '×' => "$\\times$",
        '−' => "$-$",
        '→' => "$\\to$",
        '–' => "--",
        '—' => "---",
        '’' => "'",
        '‘' => "`",
        '…' => "\\dots{}",
        'α' => "$\\alpha$",
        'β' => "$\\beta$",
        'γ' => "$\\gamma$",
        'ε' => "$\\epsilon$",
        'λ' => "$\\lambda$",
        'τ' => "$\\tau$",
        'φ' => "$\\phi$",
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => return format!("\\{c}"),
        // Brackets after a line break would be read as its argument, and a star as its variant.
        '[' | ']' | '*' => return format!("{{{c}}}"),
        'À'..='ÿ' if !matches!(c, 'Ð' | 'Þ' | 'ð' | 'þ' | '÷') => return c.to_string(),
        ' '..='~' => return c.to_string(),
        c if c.is_whitespace() || c.is_control() => " ",
        _ => "?",
    };
    known.to_owned()
}

/// Number, with a sign in mathematics: `$-3.2$`.
pub(super) fn number(text: &str) -> String {
    format!("${text}$")
}

/// Mean with its deviation: `$45.1 \pm 0.8$`. The mean is bold if it is the best.
pub(super) fn mean(mean: &str, deviation: Option<&str>, is_best: bool) -> String {
    let deviation = deviation.map_or_else(String::new, |deviation| format!(" \\pm {deviation}"));
    if !is_best {
        return format!("${mean}{deviation}$");
    }
    let bold = format!("\\textbf{{{}}}", mean.replace('-', "$-$"));
    if deviation.is_empty() { bold } else { format!("{bold}${{}}{deviation}$") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_no_commands_left() {
        assert_eq!(
            escaped("50 % of R&D_1 #2 {a} $x$ ~ ^ \\input{/etc}"),
            "50 \\% of R\\&D\\_1 \\#2 \\{a\\} \\$x\\$ \\textasciitilde{} \\textasciicircum{} \\textbackslash{}input\\{/etc\\}"
        );
        assert_eq!(
            escaped("a < b > c | \"d\" [e] *"),
            "a \\textless{} b \\textgreater{} c \\textbar{} ''d'' {[}e{]} {*}"
        );
        assert_eq!(escaped("csls, λ = 2 × 3 − é\n漢\u{0}."), "csls, $\\lambda$ = 2 $\\times$ 3 $-$ é ? .");
    }

    #[test]
    fn the_best_mean_is_bold() {
        assert_eq!(mean("45.1", Some("0.8"), false), "$45.1 \\pm 0.8$");
        assert_eq!(mean("45.1", Some("0.8"), true), "\\textbf{45.1}${} \\pm 0.8$");
        assert_eq!((mean("45.1", None, false), mean("-0.5", None, true)), ("$45.1$".into(), "\\textbf{$-$0.5}".into()));
        assert_eq!(number("-3.2"), "$-3.2$");
    }
}
