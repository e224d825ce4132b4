// What pgjdbc does with a server: prints a line for each thing that it sees.
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.Arrays;
import org.postgresql.PGConnection;

public class Client {
    public static void main(String[] given) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + given[0] + "/postgres?user=postgres&prepareThreshold=1";
        try (Connection con = DriverManager.getConnection(url); Statement plain = con.createStatement()) {
            System.out.println(con.getMetaData().getDatabaseMajorVersion());
            plain.execute("CREATE TABLE j (id int PRIMARY KEY, a text, b numeric(9,2), c timestamp, d bytea, e int[], f bool)");
            try (PreparedStatement made = con.prepareStatement("INSERT INTO j VALUES (?, ?, ?, ?, ?, ?, ?)")) {
                for (int id = 1; id <= 5; id++) {
                    made.setInt(1, id);
                    made.setString(2, id == 3 ? null : "é" + id);
                    made.setBigDecimal(3, new BigDecimal("1.50"));
                    made.setTimestamp(4, Timestamp.valueOf("2024-02-29 12:00:00.5"));
                    made.setBytes(5, new byte[] {0, -1});
                    made.setArray(6, con.createArrayOf("int4", new Object[] {id, null}));
                    made.setBoolean(7, id % 2 == 0);
                    made.addBatch();
                }
                System.out.println(Arrays.toString(made.executeBatch()));
            }
            con.setAutoCommit(false);
            try (PreparedStatement asked = con.prepareStatement("SELECT * FROM j WHERE id >= ? ORDER BY id")) {
                asked.setFetchSize(2);
                for (int round = 0; round < 3; round++) {
                    asked.setInt(1, 3);
                    try (ResultSet rows = asked.executeQuery()) {
                        while (rows.next()) {
                            System.out.println(rows.getInt(1) + " " + rows.getString(2) + " " + rows.getBigDecimal(3) + " "
                                + rows.getTimestamp(4) + " " + rows.getBytes(5).length + " "
                                + Arrays.toString((Object[]) rows.getArray(6).getArray()) + " " + rows.getBoolean(7));
                        }
                    }
                }
            }
            Savepoint here = con.setSavepoint();
            try {
                plain.execute("INSERT INTO j (id) VALUES (1)");
            } catch (SQLException error) {
                System.out.println(error.getSQLState() + " " + error.getMessage().split("\n")[0]);
                con.rollback(here);
            }
            con.commit();
            con.setAutoCommit(true);
            StringWriter copied = new StringWriter();
            long count = con.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY j (id, a) FROM STDIN", new StringReader("8\tx\n9\t\\N\n"));
            con.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (SELECT id, a FROM j WHERE id > 7 ORDER BY id) TO STDOUT", copied);
            System.out.println(count + " " + copied.toString().replace("\n", "|"));
            DatabaseMetaData about = con.getMetaData();
            try (ResultSet found = about.getColumns(null, "public", "j", "%")) {
                while (found.next()) {
                    System.out.print(found.getString("COLUMN_NAME") + ":" + found.getString("TYPE_NAME") + ":" + found.getInt("COLUMN_SIZE") + " ");
                }
                System.out.println();
            }
            try (ResultSet found = about.getPrimaryKeys(null, "public", "j")) {
                while (found.next()) {
                    System.out.println(found.getString("PK_NAME") + " " + found.getString("COLUMN_NAME"));
                }
            }
            try (ResultSet found = about.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"})) {
                while (found.next()) {
                    System.out.println(found.getString("TABLE_NAME") + " " + found.getString("TABLE_TYPE"));
                }
            }
        }
    }
}
