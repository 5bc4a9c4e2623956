//! The file that runs when Python starts, in the environments in which Pythons are found. What it does to the real
//! libraries is shown by the suite with the clients; here a module of the same name stands for one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use oncegate_tests::sidecar::{Done, finish};

use crate::shop::Shop;

/// Prints what became of the stand-in, and whether the environment's own `sitecustomize` has run.
const ASK: &str = "import sys, stripe; print(stripe.ca_bundle_path, getattr(sys, 'own', 'none'))";

/// A virtual environment as `venv`, `uv` and `pipx` make them: its own site-packages, nothing of the system's.
struct Venv {
    python: PathBuf,
    packages: PathBuf,
}

impl Venv {
    fn new(at: &Path) -> Venv {
        let mut made = Command::new("python3");
        made.args(["-m", "venv", "--without-pip"]).arg(at);
        let made = finish(made);
        assert_eq!(made.code, 0, "{made:?}");
        let lib = fs::read_dir(at.join("lib")).unwrap().next().unwrap().unwrap().path();
        let venv = Venv { python: at.join("bin/python"), packages: lib.join("site-packages") };
        venv.put("stripe.py", "ca_bundle_path = 'its own'\n");
        venv
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.packages.join(name), text).unwrap();
    }
}

#[test]
fn the_hook_is_there_in_every_kind_of_environment() {
    let shop = Shop::open();
    let sidecar = shop.home.serve();
    let venv = Venv::new(&shop.home.path("venv"));
    let bundle = shop.home.path("ca/bundle.pem").display().to_string();
    let run = |switches: &[&str], script: &str| -> Done {
        let python = venv.python.display().to_string();
        let start = ["run", "--as", "billing-agent", "--", &python];
        shop.home.run(&[&start, switches, &["-c", script]].concat())
    };
    let told = |switches: &[&str]| {
        let done = run(switches, ASK);
        assert!(done.code == 0 && done.err.is_empty(), "{done:?}");
        done.out.trim().to_owned()
    };
    assert_eq!(told(&[]), format!("{bundle} none"));
    assert_eq!(told(&["-s"]), format!("{bundle} none"), "without the user's site-packages");

    venv.put("sitecustomize.py", "import sys\nsys.own = 'ran'\n");
    for switches in [&[][..], &["-s"], &["-B", "-O"]] {
        assert_eq!(told(switches), format!("{bundle} ran"), "{switches:?}: its own one runs as well");
    }
    // Python leaves out what a variable says: then the file cannot be there, and the guide says so.
    assert_eq!(told(&["-E"]), "its own ran");

    venv.put("early.pth", "import stripe\n");
    assert_eq!(told(&[]), format!("{bundle} ran"), "imported before the file ran");

    venv.put("sitecustomize.py", "raise OSError('of its own')\n");
    let broken = run(&[], ASK);
    assert_eq!(broken.out.trim(), format!("{bundle} none"), "{broken:?}");
    assert!(broken.err.contains("of its own"), "as Python says it without us: {broken:?}");
    assert_eq!(sidecar.stop(), 0);
}
