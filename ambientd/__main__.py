"""`python -m ambientd` is `ambientd`."""

from ambientd.main import main

raise SystemExit(main())
