"""Queries over vectors and rankings by numpy, FAISS, DuckDB and DataFusion, on request, for benches/sql.rs.

Arguments: a folder with folders `items`, `queries` and `rankings` of Parquet files, and the two statements over
`rankings`. Every input line is the name of a task; the answer is its seconds and its rows as texts.
Tasks: `one` and `join` (the ten nearest of one query, and of 1,000) by a program, whose data are in memory; with
`parquet` DuckDB reads the files. `recall` and `rows`: the two statements. DataFusion's join is a window function over
all pairs of 20 queries, and its time is multiplied by 50.
"""

import json
import os
import sys
import time

folder, recall_sql, rows_sql = sys.argv[1:4]
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "2"

import datafusion
import duckdb
import faiss
import numpy as np
import pyarrow.parquet as pq

faiss.omp_set_num_threads(2)
path = {name: os.path.join(folder, name, "*.parquet") for name in ("items", "queries", "rankings")}
tables = {name: pq.read_table(os.path.join(folder, name)) for name in ("items", "queries")}
width = tables["items"].schema.field("embedding").type.list_size


def matrix(name):
    column = tables[name].column("embedding").combine_chunks()
    return column.values.to_numpy().reshape(-1, width)


items, queries = matrix("items"), matrix("queries")
query = queries[0]
# The nearest by cosine are those by inner product of vectors of length 1.
unit_items = items / np.linalg.norm(items, axis=1, keepdims=True)
unit_queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
index = faiss.IndexFlatIP(width)
index.add(unit_items)

duck = duckdb.connect()
duck.execute("SET threads = 2")
for name in ("items", "queries"):
    duck.execute(f"CREATE TABLE {name} AS SELECT id, embedding::FLOAT[{width}] AS embedding FROM '{path[name]}'")
duck.execute("CREATE SCHEMA bench")
duck.execute(f"CREATE VIEW bench.rankings AS SELECT * FROM '{path['rankings']}'")

session = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
for name in ("items", "queries"):
    session.from_arrow(tables[name], name)
literal = "[" + ", ".join(repr(float(value)) for value in query) + "]"


def one_numpy():
    scores = unit_items @ query
    best = np.argpartition(-scores, 10)[:10]
    return best[np.argsort(-scores[best])][:, None].tolist()


def one_faiss():
    return index.search(query[None], 10)[1][0][:, None].tolist()


def one_duckdb(table="items"):
    vector = "embedding" if table == "items" else f"embedding::FLOAT[{width}]"
    statement = f"SELECT id FROM {table} ORDER BY array_cosine_distance({vector}, ?::FLOAT[{width}]) LIMIT 10"
    return duck.execute(statement, [query.tolist()]).fetchall()


def one_datafusion():
    vector = f"arrow_cast({literal}, 'FixedSizeList({width}, Float32)')"
    statement = f"SELECT id FROM items ORDER BY cosine_distance(embedding, {vector}) LIMIT 10"
    return [list(row.values()) for row in session.sql(statement).to_pylist()]


def join_faiss():
    found = index.search(unit_queries, 10)[1]
    return [(query, item) for query, best in enumerate(found.tolist()) for item in best]


def join_duckdb(items="items", queries="queries"):
    def vector(table, column):
        return column if table in ("items", "queries") else f"{column}::FLOAT[{width}]"

    statement = f"""SELECT q.id, i.id FROM {queries} q, LATERAL (SELECT id,
        array_cosine_distance({vector(items, 'i.embedding')}, {vector(queries, 'q.embedding')}) AS d
        FROM {items} i ORDER BY d LIMIT 10) i ORDER BY q.id, d"""
    return duck.execute(statement).fetchall()


def join_datafusion():
    statement = """SELECT query, item FROM (SELECT q.id AS query, i.id AS item, row_number() OVER (PARTITION BY q.id
        ORDER BY cosine_distance(i.embedding, q.embedding)) AS place FROM (SELECT * FROM queries WHERE id < 20) q, items i)
        WHERE place <= 10 ORDER BY query, place"""
    return [list(row.values()) for row in session.sql(statement).to_pylist()]


def of_files(name):
    return f"'{path[name]}'"


tasks = {
    "one numpy": one_numpy,
    "one faiss": one_faiss,
    "one duckdb": one_duckdb,
    "one duckdb parquet": lambda: one_duckdb(of_files("items")),
    "one datafusion": one_datafusion,
    "join faiss": join_faiss,
    "join duckdb": join_duckdb,
    "join duckdb parquet": lambda: join_duckdb(of_files("items"), of_files("queries")),
    "join datafusion": join_datafusion,
    "recall duckdb": lambda: duck.execute(recall_sql).fetchall(),
    "rows duckdb": lambda: duck.execute(rows_sql).fetchall(),
}


def text(value):
    return f"{value:.9f}" if isinstance(value, float) else str(value)


for line in sys.stdin:
    task = line.strip()
    started = time.perf_counter()
    rows = tasks[task]()
    seconds = time.perf_counter() - started
    if task == "join datafusion":
        seconds *= 50
    print(json.dumps([seconds, [" ".join(map(text, row)) for row in rows]]), flush=True)
