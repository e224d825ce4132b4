// What node-postgres does with a server: prints a line for each thing that it sees.
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');

const options = { host: '127.0.0.1', port: Number(process.argv[2]), user: 'postgres', database: 'postgres' };
const say = (...parts) => console.log(parts.map((each) => JSON.stringify(each)).join(' '));

async function main() {
  const client = new Client(options);
  await client.connect();
  await client.query('CREATE TABLE n (id serial PRIMARY KEY, a text, b jsonb, c int[], d bytea, e timestamptz, f numeric)');
  const values = ['é\t"', { x: [1, null] }, [1, 2], Buffer.from([0, 255]), new Date(Date.UTC(2024, 1, 29)), '12.50'];
  const made = await client.query('INSERT INTO n (a, b, c, d, e, f) VALUES ($1, $2, $3, $4, $5, $6) RETURNING *', values);
  const row = made.rows[0];
  say(made.command, made.rowCount, row.id, row.a, row.b, row.c, row.d.toString('hex'), row.e, row.f);
  for (const id of [1, 2]) {
    const found = await client.query({ name: 'by_id', text: 'SELECT a FROM n WHERE id = $1', values: [id], rowMode: 'array' });
    say(found.rows, found.fields.map((field) => [field.name, field.dataTypeID]));
  }
  const several = await client.query('SELECT 1 AS one; SELECT 2 AS two');
  say(several.map((each) => each.rows));
  try {
    await client.query('INSERT INTO n (id) VALUES (1)');
  } catch (error) {
    say(error.code, error.constraint, error.detail, error.table);
  }
  await client.query('BEGIN');
  await client.query('INSERT INTO n (id) SELECT g FROM generate_series(10, 19) g');
  const cursor = client.query(new Cursor('SELECT id FROM n WHERE id > $1 ORDER BY id', [12]));
  say((await cursor.read(3)).map((each) => each.id), (await cursor.read(9)).length);
  await cursor.close();
  await client.query('ROLLBACK');
  const heard = new Promise((resolve) => client.on('notification', (each) => resolve([each.channel, each.payload])));
  await client.query('LISTEN c');
  const pool = new Pool({ ...options, max: 3 });
  await Promise.all([1, 2, 3, 4, 5].map((each) => pool.query('SELECT pg_notify($1, $2)', ['c', 'x' + (each && '')])));
  say(await heard, pool.totalCount);
  await pool.end();
  await client.end();
}

main().catch((error) => { console.error(error); process.exit(1); });
