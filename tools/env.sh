# Enter the development environment, making or updating it first:  . tools/env.sh
# DISTRO=jazzy, PYTHON=/path/to/python3.12 are honoured. Works in bash and zsh.
_kit_tools=${BASH_SOURCE[0]:-$0}
_kit_root=$(cd "$(dirname "$_kit_tools")/.." && pwd)
if _kit_env=$(cd "$_kit_root" && "${PYTHON:-python3}" -m tools.bootstrap --shell); then
  eval "$_kit_env"
  unset _kit_tools _kit_root _kit_env
  hash -r
else
  unset _kit_tools _kit_root _kit_env
  false
fi
