"""Client of Flight SQL, run by `flight.rs`: queries a server through ADBC and compares with the files of the store.

python3 adbc_client.py URI TOKEN CERTIFICATE FOLDER

FOLDER has the Parquet parts of `theirs.image_embeddings`.
"""

import glob
import sys

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flight
import adbc_driver_manager
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

uri, token, certificate, folder = sys.argv[1:]
options = {}
if token:
    options[adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Bearer {token}"
if certificate:
    options[adbc_driver_flightsql.DatabaseOptions.TLS_ROOT_CERTS.value] = open(certificate).read()

own = pyarrow.concat_tables(parquet.read_table(part) for part in sorted(glob.glob(f"{folder}/*.parquet")))
own = own.sort_by("image_id")
vectors = own["embedding"].to_pylist()


def nearest(query, count):
    """Ids of the images with the smallest Euclidean distances, by the definition."""
    distances = [sum((a - b) ** 2 for a, b in zip(query, vector)) ** 0.5 for vector in vectors]
    order = sorted(range(len(vectors)), key=lambda i: (distances[i], i))[:count]
    return [(own["image_id"][i].as_py(), distances[i]) for i in order]


def fails(cursor, sql, text, parameters=None):
    """Asserts that a query fails with this text in its message."""
    try:
        cursor.execute(sql, parameters)
        cursor.fetchall()
    except adbc_driver_manager.Error as error:
        assert text in str(error), f"{sql}: {error}"
    else:
        raise AssertionError(f"{sql}: no error")


def connect(options, **names):
    return flight.connect(uri, db_kwargs=options, conn_kwargs=names)


if token:
    wrong = dict(options)
    wrong[adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value] = "Bearer 0123456789abcdeX"
    for refused, message in [(wrong, "the token is wrong"), ({k: v for k, v in options.items() if "tls" in k}, "missing")]:
        with connect(refused) as connection, connection.cursor() as cursor:
            fails(cursor, "SELECT 1", message)
    # User and password: the handshake returns the token.
    basic = {k: v for k, v in options.items() if "tls" in k} | {"username": "anyone", "password": token}
    with connect(basic) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchall() == [(1,)]

with connect(options) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM theirs.image_embeddings ORDER BY image_id")
        table = cursor.fetch_arrow_table()
        assert table.column_names == own.column_names, table.schema
        # All values can be missing for a client, so only widths and types are compared.
        sent, kept = table["embedding"].type, own["embedding"].type
        assert (sent.list_size, sent.value_type) == (kept.list_size, kept.value_type), table.schema
        for name in own.column_names:
            assert table[name].combine_chunks().equals(own[name].combine_chunks().cast(table[name].type)), name
        # A list of Python beside vectors of f32, and a number.
        sql = "SELECT image_id, array_distance(embedding, ?) AS d FROM theirs.image_embeddings ORDER BY d, image_id LIMIT ?"
        query = [x + 0.125 for x in vectors[3]]
        cursor.execute(sql, (query, 4))
        for (image, distance), (wanted_image, wanted_distance) in zip(cursor.fetchall(), nearest(query, 4), strict=True):
            assert image == wanted_image and abs(distance - wanted_distance) < 1e-5, (image, distance)
        # Many rows of parameters.
        rows = pyarrow.table({
            "0": pyarrow.array(vectors[:5], pyarrow.list_(pyarrow.float64())),
            "1": pyarrow.array([1, 2, 3, 2, 1], pyarrow.int64()),
        })
        statement = cursor.adbc_statement
        statement.set_sql_query(sql)
        statement.prepare()
        statement.bind_stream(rows.to_reader())
        stream, _ = statement.execute_query()
        got = pyarrow.RecordBatchReader._import_from_c(stream.address).read_all()["image_id"].to_pylist()
        expected = [image for i, count in enumerate([1, 2, 3, 2, 1]) for image, _ in nearest(vectors[i], count)]
        assert got == expected, (got, expected)
        fails(cursor, "SELECT * FROM theirs.imag", "there is no table `theirs.imag`")
        fails(cursor, "DROP TABLE theirs.images", "the store is read-only")
        fails(cursor, sql, f"has 2 numbers, expected {len(vectors[0])}", ([1.0, 2.0], 1))
    tables = connection.adbc_get_objects(depth="columns", db_schema_filter="theirs").read_all().to_pylist()
    schema = tables[0]["catalog_db_schemas"][0]
    columns = {t["table_name"]: [c["column_name"] for c in t["table_columns"]] for t in schema["db_schema_tables"]}
    assert columns["image_embeddings"] == own.column_names, columns
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Pairloom", info
    assert "TABLE" in connection.adbc_get_table_types()
    schema = connection.adbc_get_table_schema("image_embeddings", db_schema_filter="theirs")
    assert schema.names == own.column_names, schema
print("ok")
