output "service_policy_arn" {
  description = "To be attached to the role of `cloister serve`."
  value       = aws_iam_policy.service.arn
}

output "blobs" {
  description = "CLOISTER_BLOBS, of the service and of workers."
  value       = "s3://${aws_s3_bucket.blobs.bucket}/${var.prefix}?region=${data.aws_region.here.name}"
}

output "security_group_id" {
  description = "That of the workers."
  value       = aws_security_group.workers.id
}

# terraform output -json target >target.json; cloister target register target.json
output "target" {
  description = "The target, but for `subnets` of its member `ecs`."
  value = {
    name    = "fargate"
    engine  = "ecs"
    image   = var.image
    cpus    = tostring(var.cpu / 1024)
    memory  = "${var.memory}M"
    env     = { CLOISTER_BLOBS = "s3://${aws_s3_bucket.blobs.bucket}/${var.prefix}?region=${data.aws_region.here.name}" }
    secrets = { CLOISTER_STORE = var.store_secret_arn }
    ecs = {
      region         = data.aws_region.here.name
      cluster        = aws_ecs_cluster.workers.name
      securityGroups = [aws_security_group.workers.id]
      launchType     = "FARGATE"
      taskRole       = aws_iam_role.worker.arn
      executionRole  = aws_iam_role.start.arn
      logGroup       = aws_cloudwatch_log_group.workers.name
    }
  }
}
