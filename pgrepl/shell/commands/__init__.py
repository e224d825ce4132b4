"""The subcommands of pgrepl beside the shell: apply, status, check, plan, diff, run, dump, describe, changes,
import-schema, backup, standby, verify, upgrade. `subcommand` is what they share; `check` reads scripts as the shell
does, with `findings` of what is wrong."""
