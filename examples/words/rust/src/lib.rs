//! Words of lines, as rows: windows count them.

use millrace::prelude::*;

millrace::module! {
    name: "words",
    flat_map words { on_record: split, input: { line: string }, output: { word: string } },
}

/// One row per word, in lower case, of the line's time. Words are ASCII letters and digits, and whatever is not
/// ASCII.
fn split(ctx: &mut Ctx, rec: &Record) -> Result<()> {
    let row = rec.row(words::input::COUNT)?;
    let line = row.str(words::input::line).unwrap_or("");
    for word in line.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
        let word = word.to_ascii_lowercase();
        ctx.emit().row(words::output::COUNT, |r| {
            r.str(words::output::word, &word);
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace::testing::{Cell, Harness, Input};

    #[test]
    fn a_row_for_each_word() {
        let mut h = Harness::new(&MODULE, "words");
        h.send(Input::row(&[Cell::Str("To be, or n\u{f6}t to BE;")]));
        h.send(Input::row(&[Cell::Null]));
        assert_eq!(h.outputs().len(), 6);
    }
}
