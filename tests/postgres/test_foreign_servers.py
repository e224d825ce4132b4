"""information_schema's views of foreign servers and user mappings say what a real server's say."""

from __future__ import annotations

from tests.postgres.side_by_side import SideBySide


def test_information_schema_tells_of_servers_and_mappings(sides: SideBySide) -> None:
    sides.link.execute("DROP ROLE IF EXISTS mapped; CREATE FOREIGN DATA WRAPPER postgresql")
    sides.run(
        "CREATE SERVER s TYPE 't' VERSION '1' FOREIGN DATA WRAPPER postgresql OPTIONS (host 'h', dbname 'd');"
        " CREATE ROLE mapped; CREATE USER MAPPING FOR PUBLIC SERVER s;"
        " CREATE USER MAPPING FOR mapped SERVER s OPTIONS (\"user\" 'm', password 'secret')"
    )
    asked = (
        "SELECT foreign_data_wrapper_name, library_name, foreign_data_wrapper_language FROM"
        " information_schema.foreign_data_wrappers",
        "SELECT foreign_server_name, foreign_data_wrapper_name, foreign_server_type, foreign_server_version"
        " FROM information_schema.foreign_servers",
        "SELECT foreign_server_name, option_name, option_value FROM information_schema.foreign_server_options"
        " ORDER BY 2",
        "SELECT authorization_identifier, foreign_server_name FROM information_schema.user_mappings ORDER BY 1",
        "SELECT authorization_identifier, foreign_server_name, option_name, option_value"
        " FROM information_schema.user_mapping_options ORDER BY 1, 3",
        "SELECT has_server_privilege('mapped', 's', 'USAGE'), has_server_privilege('s', 'USAGE WITH GRANT OPTION')",
        "SELECT has_server_privilege('none', 'USAGE')",
    )
    for before in (
        "RESET ROLE",
        "SET ROLE mapped",
        "RESET ROLE; GRANT USAGE ON FOREIGN SERVER s TO mapped; SET ROLE mapped",
    ):
        sides.run(before)
        for each in asked:
            sides.same(each)
    sides.run("RESET ROLE; DROP SERVER s CASCADE; DROP ROLE mapped")
