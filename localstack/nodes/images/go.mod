module headgate.dev/localstack/nodes/images

go 1.26.0
