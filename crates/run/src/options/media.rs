//! Memory media and the placement of pages, as they are written in options and jobs files.

use std::fs;
use std::path::Path;

use memweir_core::input::{DataFile, InputError};
use memweir_core::medium::data::{MEDIA, MediumData};
use memweir_core::placement::{Placement, PlacementSpec};
use memweir_core::{MAX_MEDIA, Media};

/// The media of a machine: DRAM, and beside it those of `list`, shipped ones by name and others
/// by a file that ends in `.toml` and starts at `directory`, with commas between them.
pub fn media(list: &str, directory: &Path) -> Result<Media, InputError> {
    let medium = |choice: &str| {
        let found = DataFile::find("medium", choice, &MEDIA, directory, fs::read_to_string);
        let file = found.map_err(|refusal| refusal.written_in("media"))?;
        MediumData::parse(&file.name, &file.text)
    };
    let data =
        list.split(',').map(|choice| medium(choice.trim())).collect::<Result<Vec<_>, _>>()?;
    Media::with_dram(&data).map_err(|refusal| {
        let help = format!("at most {} beside DRAM, each once", MAX_MEDIA - 1);
        InputError::new("media", refusal.reason).help(help)
    })
}

/// A placement on a machine with these media.
pub fn placed(spec: &PlacementSpec, media: &Media) -> Result<Placement, InputError> {
    spec.resolve(media).map_err(|mut refusal| {
        if media.len() == 1 {
            let help = refusal.help.unwrap_or_default();
            refusal.help = Some(format!("{help}; name the machine's media with `--media`"));
        }
        refusal.written_in("placement")
    })
}
