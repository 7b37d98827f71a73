"""What a killed training resumes from."""
