#!/usr/bin/env python3
"""List the P4Runtime schema that a finsy wheel carries, one fact a line.

    pip download --no-deps finsy==0.30.0
    python3 -m venv v && v/bin/pip install protobuf
    v/bin/python list_schema.py finsy-0.30.0-py3-none-any.whl > p4runtime_schema.txt

The wheel is only unzipped, never imported: each generated module holds its
serialized FileDescriptorProto as a bytes literal.
"""

import ast
import sys
import zipfile

from google.protobuf import descriptor_pb2

FILES = [
    "google/rpc/code",
    "google/rpc/status",
    "p4/config/v1/p4types",
    "p4/config/v1/p4info",
    "p4/v1/p4data",
    "p4/v1/p4runtime",
]
FIELD = descriptor_pb2.FieldDescriptorProto


def descriptor(wheel, stem):
    """The FileDescriptorProto inside the module generated from `stem`.proto."""
    text = wheel.read(f"finsy/proto/{stem}_pb2.py").decode()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") == "AddSerializedFile"
        ):
            return descriptor_pb2.FileDescriptorProto.FromString(node.args[0].value)
    raise SystemExit(f"{stem}: no serialized descriptor")


def enum_lines(scope, enum):
    for value in enum.value:
        yield f"enum {scope}.{enum.name}.{value.name} = {value.number}"


def message_lines(scope, message):
    name = f"{scope}.{message.name}"
    yield f"message {name}"
    for field in message.field:
        kind = field.type_name or FIELD.Type.Name(field.type)[5:].lower()
        label = "repeated" if field.label == FIELD.LABEL_REPEATED else "single"
        line = f"field {name}.{field.name} = {field.number} {kind} {label}"
        if field.HasField("oneof_index"):
            line += f" oneof={message.oneof_decl[field.oneof_index].name}"
        yield line
    for enum in message.enum_type:
        yield from enum_lines(name, enum)
    for nested in message.nested_type:
        yield from message_lines(name, nested)


def file_lines(file):
    for enum in file.enum_type:
        yield from enum_lines(file.package, enum)
    for message in file.message_type:
        yield from message_lines(file.package, message)
    for service in file.service:
        for method in service.method:
            ask = "stream " * method.client_streaming + method.input_type
            reply = "stream " * method.server_streaming + method.output_type
            yield f"rpc {file.package}.{service.name}.{method.name} {ask} -> {reply}"


def main():
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        lines = [x for f in FILES for x in file_lines(descriptor(wheel, f))]
    print("\n".join(sorted(lines)))


main()
