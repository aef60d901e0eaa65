//! Two threads, each with a table in banks of its own.
//!
//! ```console
//! # cargo build --release -p memweir-color-api --example threads
//! # memweir color run --map i7-860.toml --colors 0-7 -- target/release/examples/threads
//! ```

use memweir_color_api::{ColoredMemory, Error, colors, set_thread_colors};
use memweir_core::Bytes;

const TABLE: Bytes = Bytes(8 << 20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(count) = colors() else {
        println!("pages are not placed; the tables are ordinary memory");
        return Ok(());
    };
    println!("the map has {count} colors");
    std::thread::scope(|scope| {
        let threads = ["0-3", "4-7"].map(|colors| scope.spawn(move || work(colors)));
        for thread in threads {
            println!("{}", thread.join().expect("the thread ends")?);
        }
        Ok(())
    })
}

/// Fills a table in these colors; the thread's other memory has them, too.
fn work(colors: &str) -> Result<String, Error> {
    let set = colors.parse().map_err(|_| Error::NotGiven(colors.to_owned()))?;
    set_thread_colors(Some(&set))?;
    let mut table = ColoredMemory::new(TABLE, &set)?;
    for (row, bytes) in table.chunks_mut(64).enumerate() {
        bytes[0] = row as u8;
    }
    let sum: u64 = table.iter().map(|byte| u64::from(*byte)).sum();
    Ok(format!("colors {colors}: {sum}"))
}
