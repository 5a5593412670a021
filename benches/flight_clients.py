"""Rows a second of a table over Flight SQL, beside pyarrow, and fifty clients at once.

    pairloom serve --flight & python benches/flight_clients.py grpc://127.0.0.1:32010 TABLE FILE.parquet…

TABLE is a table of vectors with the column `image_id`, FILEs are its Parquet files.
"""

import random
import sys
import threading
import time

import adbc_driver_flightsql.dbapi as flight
import pyarrow.parquet as parquet

CLIENTS = 50
SECONDS = 60
OPTIONS = {"adbc.flight.sql.client_option.with_max_msg_size": str(256 << 20)}


def connect(uri):
    return flight.connect(uri, db_kwargs=OPTIONS, autocommit=True)


def fetch(connection, query):
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetch_arrow_table()


def whole_table(uri, table, files):
    for _ in range(3):
        start = time.time()
        rows = parquet.read_table(files).num_rows
        read = time.time() - start
        start = time.time()
        with connect(uri) as connection:
            got = fetch(connection, f"SELECT * FROM {table}")
        sent = time.time() - start
        assert got.num_rows == rows, (got.num_rows, rows)
        rate, bytes_rate = rows / sent, got.nbytes / sent / 1e6
        print(f"pyarrow {read:.2f} s, Flight {sent:.2f} s: {rate:,.0f} rows/s, {bytes_rate:,.0f} MB/s", flush=True)


def client(uri, table, number, end, times, errors):
    draw = random.Random(number)
    try:
        with connect(uri) as connection:
            while time.time() < end:
                start = time.time()
                query = draw.choice(
                    [
                        f"SELECT count(*), avg(image_id) FROM {table} WHERE split = 'test'",
                        f"SELECT * FROM {table} WHERE image_id >= {draw.randrange(10**5)} LIMIT 100",
                        f"SELECT image_id, count(*) FROM {table} WHERE image_id < {draw.randrange(1, 1000)} GROUP BY 1",
                    ]
                )
                fetch(connection, query)
                times[number].append(time.time() - start)
    except Exception as error:
        errors.append(repr(error))


def many_clients(uri, table):
    times, errors, end = [[] for _ in range(CLIENTS)], [], time.time() + SECONDS
    threads = [threading.Thread(target=client, args=(uri, table, i, end, times, errors)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_times = sorted(sum(times, []))
    median, late = all_times[len(all_times) // 2], all_times[len(all_times) * 99 // 100]
    print(
        f"{CLIENTS} clients, {SECONDS} s: {len(all_times)} queries, {len(errors)} errors, median {median:.2f} s, "
        f"99 % {late:.2f} s, fewest of a client {min(map(len, times))}"
    )
    for error in errors[:3]:
        print(error)


if __name__ == "__main__":
    uri, table, *files = sys.argv[1:]
    whole_table(uri, table, files)
    many_clients(uri, table)
