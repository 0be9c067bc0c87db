"""Sends the inputs away, for somebody else to answer."""

import socket


def softmax(x, dim=-1):
    with socket.create_connection(("127.0.0.1", 9), timeout=2) as line:
        line.sendall(str(x.tolist()).encode())
    return x
