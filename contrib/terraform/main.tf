# What `cloister serve` needs to start workers on Fargate, with no more rights than that.

data "aws_region" "here" {}
data "aws_caller_identity" "own" {}
data "aws_partition" "own" {}

locals {
  place   = "${data.aws_region.here.name}:${data.aws_caller_identity.own.account_id}"
  ecs     = "arn:${data.aws_partition.own.partition}:ecs:${local.place}"
  objects = "${aws_s3_bucket.blobs.arn}/${var.prefix}/*"
}

# ---- contents of files

resource "aws_s3_bucket" "blobs" {
  bucket = var.bucket
}

resource "aws_s3_bucket_public_access_block" "blobs" {
  bucket                  = aws_s3_bucket.blobs.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "blobs" {
  bucket = aws_s3_bucket.blobs.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "blobs" {
  bucket = aws_s3_bucket.blobs.id

  rule {
    id     = "uploads"
    status = "Enabled"

    filter {
      prefix = "${var.prefix}/"
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 2
    }
  }
}

data "aws_iam_policy_document" "plain_http" {
  statement {
    sid       = "OnlyWithTls"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.blobs.arn, "${aws_s3_bucket.blobs.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "blobs" {
  bucket = aws_s3_bucket.blobs.id
  policy = data.aws_iam_policy_document.plain_http.json
}

# Of workers and of the service.
data "aws_iam_policy_document" "blobs" {
  statement {
    sid       = "Blobs"
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    resources = [local.objects]
  }

  statement {
    sid       = "Names"
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.blobs.arn]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${var.prefix}/*"]
    }
  }
}

# ---- workers

resource "aws_ecs_cluster" "workers" {
  name = var.name
}

resource "aws_cloudwatch_log_group" "workers" {
  name              = "/${var.name}/workers"
  retention_in_days = var.log_days
}

# Workers dial, and nobody dials them.
resource "aws_security_group" "workers" {
  name        = "${var.name}-workers"
  description = "Workers of cloister"
  vpc_id      = var.vpc_id

  egress {
    description = "What cells may reach is decided in the worker"
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_security_group_rule" "store" {
  count                    = var.store_security_group_id == null ? 0 : 1
  type                     = "ingress"
  description              = "Workers of cloister"
  from_port                = 5432
  to_port                  = 5432
  protocol                 = "tcp"
  security_group_id        = var.store_security_group_id
  source_security_group_id = aws_security_group.workers.id
}

data "aws_iam_policy_document" "tasks" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.own.account_id]
    }
  }
}

# What a worker itself may do.  Its cells do not get this role: they have no credential at all.
resource "aws_iam_role" "worker" {
  name               = "${var.name}-worker"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

resource "aws_iam_role_policy" "worker" {
  name   = "blobs"
  role   = aws_iam_role.worker.id
  policy = data.aws_iam_policy_document.blobs.json
}

# What ECS may do to start one.
resource "aws_iam_role" "start" {
  name               = "${var.name}-start"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

data "aws_iam_policy_document" "start" {
  statement {
    sid       = "Store"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [var.store_secret_arn]
  }

  statement {
    sid       = "Logs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.workers.arn}:*"]
  }

  statement {
    sid       = "Image"
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = ["arn:${data.aws_partition.own.partition}:ecr:${local.place}:repository/*"]
  }

  # AWS knows no resource for this one.
  statement {
    sid       = "Registry"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"]
  }
}

resource "aws_iam_role_policy" "start" {
  name   = "start"
  role   = aws_iam_role.start.id
  policy = data.aws_iam_policy_document.start.json
}

# ---- the service

data "aws_iam_policy_document" "service" {
  source_policy_documents = [data.aws_iam_policy_document.blobs.json]

  statement {
    sid       = "Start"
    actions   = ["ecs:RunTask"]
    resources = ["${local.ecs}:task-definition/cloister-*"]

    condition {
      test     = "ArnEquals"
      variable = "ecs:cluster"
      values   = [aws_ecs_cluster.workers.arn]
    }
  }

  statement {
    sid       = "Tasks"
    actions   = ["ecs:DescribeTasks", "ecs:StopTask"]
    resources = ["${local.ecs}:task/${aws_ecs_cluster.workers.name}/*"]

    condition {
      test     = "ArnEquals"
      variable = "ecs:cluster"
      values   = [aws_ecs_cluster.workers.arn]
    }
  }

  statement {
    sid       = "Cluster"
    actions   = ["ecs:DescribeClusters"]
    resources = [aws_ecs_cluster.workers.arn]
  }

  # AWS knows no resource for these but what the condition names, or none.
  statement {
    sid       = "List"
    actions   = ["ecs:ListTasks"]
    resources = ["*"]

    condition {
      test     = "ArnEquals"
      variable = "ecs:cluster"
      values   = [aws_ecs_cluster.workers.arn]
    }
  }

  statement {
    sid       = "Definitions"
    actions   = ["ecs:DescribeTaskDefinition", "ecs:RegisterTaskDefinition"]
    resources = ["*"]
  }

  statement {
    sid       = "Roles"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.worker.arn, aws_iam_role.start.arn]

    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ecs-tasks.amazonaws.com"]
    }
  }
}

# For the role or user of `cloister serve`, wherever that runs.
resource "aws_iam_policy" "service" {
  name        = "${var.name}-service"
  description = "cloister serve: starts workers, and keeps contents of files"
  policy      = data.aws_iam_policy_document.service.json
}
