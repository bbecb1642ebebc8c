"""Set-up and checks of a source tree. Not part of the installed package."""
