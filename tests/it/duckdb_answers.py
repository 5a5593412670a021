"""Answers of DuckDB: for each line of stdin, a query as a JSON string, a line with its rows as JSON or `{"error": …}`."""

import json
import sys

import duckdb


def text(value):
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


for line in sys.stdin:
    try:
        rows = duckdb.connect().execute(json.loads(line)).fetchall()
        answer = [[text(value) for value in row] for row in rows]
    except duckdb.Error as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
