"""What strategies of kinds fill in, keep and drop before an object is stored."""
