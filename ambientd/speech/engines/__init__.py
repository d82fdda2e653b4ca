"""One speech engine a file, each behind the protocol in ``ambientd.speech.engine``."""
