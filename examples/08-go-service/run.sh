#!/bin/sh
# Generates the Go code, builds and starts the service, and checks that it keeps the contract.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
needs grpc_tools grpcio-tools

mkdir -p gen bin
options="" files=""
for file in ../../proto/pratique/admission/v1/*.proto; do
    name="pratique/admission/v1/$(basename "$file")"
    files="$files $name"
    options="$options --go_opt=M$name=example.com/images/gen --go-grpc_opt=M$name=example.com/images/gen"
done
go build -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
# grpcio-tools brings protoc along.
PATH="$PWD/bin:$PATH" python -m grpc_tools.protoc -I ../../proto $options \
    --go_out=. --go-grpc_out=. --go_opt=module=example.com/images --go-grpc_opt=module=example.com/images $files
go build -o bin/images .

./bin/images &
trap 'kill $!' EXIT
pratique verify 127.0.0.1:18908 --controller images.example.com --timeout 20s --strict -o "${1:-text}"
